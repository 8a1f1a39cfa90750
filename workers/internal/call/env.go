package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// Env is shared by the calls of one worker. Its methods may overlap.
type Env struct {
	Bus    *bus.Bus
	Worker session.Worker
	Blobs  blob.Store // bodies outside the log, see [NewBlobCache]
	Log    *zap.Logger

	Providers map[string]llm.Provider           // by id
	Allowed   func(providers []string) []string // those that sessions may name; nil: all
	Provider  string                            // default of sessions that name none; empty: no default
	Model     string                            // default of sessions that name none
	Retry     Retry
	Silence   Silence
	Quiet     bool         // streams no output before its commit, which may be filtered
	Memory    *memory.Pool // of bodies of conversations, by session
	// Environments are where commands and programs run on this node.
	Environments plugin.Environments
	RunsTools    bool // this node runs portable tools itself; else nodes with the tool role do

	refusals refusals
}

// ProviderFor finds the provider of a session's configuration. A configuration that names a provider gets that one or
// an error: it refuses a provider that is registered under the name and reports another one. Errors:
// [*api.ProviderError].
func (e *Env) ProviderFor(id events.SessionID, config events.Config) (llm.Provider, error) {
	name := cmp.Or(config.Provider, e.Provider)
	provider, ok := e.Providers[name]
	err := &api.ProviderError{Session: id, Provider: name}
	switch {
	case name == "", !ok:
		err.Known = e.providerNames()
		return nil, err
	case config.Provider != "" && provider.ID() != name:
		err.Actual = provider.ID()
		return nil, err
	}
	return provider, nil
}

// providerNames lists the providers that a configuration may name on this node, without those that the locks exclude.
func (e *Env) providerNames() string {
	var list []string
	for name, p := range e.Providers {
		if p.ID() == name {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	if e.Allowed != nil {
		list = e.Allowed(list)
	}
	return strings.Join(list, ", ")
}

func (e *Env) warn(id events.SessionID, err error) {
	e.Log.Warn("plugin", zap.String("session", string(id)), zap.Error(err))
}

// pluginResultOf converts a result of the history to a plugin's result. References of attachments stay: their bodies may be no text.
func (e *Env) pluginResultOf(ctx context.Context, r *events.ToolResult) (plugin.Result, error) {
	whole := *r
	whole.Attachments = nil
	whole, err := blob.FillResult(ctx, e.Blobs, whole)
	whole.Attachments = r.Attachments
	return pluginResult(&whole), err
}

// tries counts the tries of one model call.
type tries struct {
	n     int          // number of tries
	spent events.Usage // usage of the failed ones
	model string       // as the last failed one that knows it reported it
	first *int64       // milliseconds to the first piece of the last one; nil: it had none
}

// and are these tries and those of the same call with another request.
func (t tries) and(more tries) tries {
	more.n, more.spent, more.model = t.n+more.n, t.spent.Add(more.spent), cmp.Or(more.model, t.model)
	return more
}

func (t *tries) failed(resp *llm.Response) {
	t.spent, t.model = t.spent.Add(resp.Usage), cmp.Or(resp.Model, t.model)
}

// withRetries makes a model call until it succeeds, fails permanently, or has no time left by the policy. An unfinished reply is asked for
// once more, at once, for each thing that replies of the call lack.
// call calls piece with each piece of the reply. onRetry, which may be nil, is called before each wait.
func (e *Env) withRetries(ctx context.Context, call func(ctx context.Context, piece func()) (llm.Response, error), onRetry retryFunc) (llm.Response, tries, error) {
	var t tries
	var failed time.Time            // first
	unfinished := map[string]bool{} // what replies lacked, by code
	for n := 1; ; n++ {
		began := time.Now()
		t.first = nil
		resp, err := call(ctx, func() {
			if t.first == nil {
				t.first = new(time.Since(began).Milliseconds())
			}
		})
		if t.n = n; err != nil {
			t.failed(&resp)
		}
		var failure *llm.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &failure) {
			return resp, t, err
		}
		if failed.IsZero() {
			failed = time.Now()
		}
		wait, last := e.Retry.next(n, failure, time.Since(failed))
		switch {
		case last == failure:
			return resp, t, err
		case last != nil:
			return resp, t, last
		}
		if failure.Kind == llm.KindUnfinished {
			if unfinished[failure.Code] {
				return resp, t, err
			}
			unfinished[failure.Code], wait = true, 0
		}
		if onRetry != nil {
			onRetry(n, wait, failure)
		}
		if !delay.Sleep(ctx, wait) {
			return resp, t, context.Cause(ctx)
		}
	}
}

// retryFunc receives a try that failed, from 1, and the wait before the next one.
type retryFunc = func(n int, wait time.Duration, failure *llm.Error)

// noticed is a sink that calls piece too.
func noticed(sink func(llm.Delta), piece func()) func(llm.Delta) {
	return func(d llm.Delta) {
		piece()
		if sink != nil {
			sink(d)
		}
	}
}

// maxTokens is more than any model uses in one try. Sums of it stay far below the maximum of an int64.
const maxTokens = 1 << 40

// complete calls a provider once. The metadata of its reply is untrusted, as the parts are: complete cuts names and
// codes to the length of an id, and limits counts to 0 to [maxTokens]. They are recorded, summed and shown.
func complete(ctx context.Context, provider llm.Provider, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	resp, err := completeContained(ctx, provider, req, sink)
	resp.Model, resp.ID = clipName(resp.Model), clipName(resp.ID)
	u := &resp.Usage
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning} {
		*n = min(max(*n, 0), maxTokens)
	}
	if failure, ok := errors.AsType[*llm.Error](err); ok && len(failure.Code) > events.MaxIDBytes {
		short := *failure
		short.Code = clipName(short.Code)
		err = &short
	}
	if err == nil {
		err = resp.Finished()
	}
	if err == nil { // usage of a failed call counts too
		err = checkReply(&events.ModelReplied{Parts: resp.Parts, Stop: resp.Stop}, maxRecordBytes)
	}
	return resp, err
}

func clipName(s string) string {
	return events.Clip(strings.ToValidUTF8(s, "\uFFFD"), events.MaxIDBytes, "...")
}

// completeContained converts a provider's panic to an [*llm.Error].
func completeContained(ctx context.Context, provider llm.Provider, req llm.Request, sink func(llm.Delta)) (resp llm.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &llm.Error{Kind: llm.KindRequest, Code: "provider_panic", Message: fmt.Sprint(p)}
		}
	}()
	return provider.Complete(ctx, req, sink)
}
