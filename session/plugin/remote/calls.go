package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/output"
	"github.com/lash-go/lash/session/plugin/wire"
)

// calls are the calls that an instance knows. A call is in one state:
//
//	running ──the tool returns──► ended, with its outcome ──recorded, old or too large──► dropped ──too many──► forgotten
type calls struct {
	keep time.Duration

	mu       sync.Mutex
	byID     map[wire.CallID]*knownCall
	ended    []wire.CallID // in the order of their ends
	old      int           // of ended: the first ones, whose outcomes are dropped as old, or because all are too large
	bytes    int           // of all outcomes
	total    int64         // calls that ended
	failed   int64         // of total
	forgot   bool          // an id was dropped: an unknown call may have run
	hooks    int           // that run
	draining bool

	withdrawn []withdrawal // questions, those that the next sign has first

	idle chan struct{} // closed once nothing runs while draining; nil before
}

// knownCall is a call that runs here, or that has run and is still known.
type knownCall struct {
	cancel  context.CancelCauseFunc
	replies []string                             // that wait for the outcome, the newest last; at most [wire.MaxReplies]
	answers map[string]chan *wire.CallbackAnswer // by the id of a callback that waits
	stopped bool                                 // by a cancel
	outcome *wire.Outcome                        // nil while it runs, and after it is recorded
	over    time.Time                            // zero while it runs
}

func newCalls(keep time.Duration) *calls {
	return &calls{keep: keep, byID: make(map[wire.CallID]*knownCall)}
}

// join finds the call of a message, or begins it, unless refuse has an error for it. run: the caller has to run it.
// answer: what the sender gets at once. A refusal says that the call has not run, so what the instance knows of the id
// comes first.
func (c *calls) join(in *wire.Call, reply string, cancel context.CancelCauseFunc, refuse func() *wire.Error) (run bool, answer wire.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[in.CallID]
	switch {
	case known == nil && c.forgot && in.Again:
		return false, wire.Progress{Forgotten: true}
	case known == nil && c.draining:
		return false, wire.Progress{Error: draining()}
	case known == nil:
		if refused := refuse(); refused != nil {
			return false, wire.Progress{Error: refused}
		}
		c.byID[in.CallID] = &knownCall{cancel: cancel, replies: []string{reply}}
		return true, wire.Progress{}
	case known.over.IsZero():
		known.replies = slices.DeleteFunc(known.replies, func(r string) bool { return r == reply })
		known.replies = append(known.replies, reply)
		known.replies = known.replies[max(0, len(known.replies)-wire.MaxReplies):]
		return false, wire.Progress{}
	case known.outcome == nil:
		return false, wire.Progress{Forgotten: true}
	}
	return false, wire.Progress{Outcome: known.outcome}
}

// end keeps the outcome of a call, and returns the replies that wait for it.
func (c *calls) end(id wire.CallID, outcome *wire.Outcome, now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[id]
	known.outcome, known.over = outcome, now
	c.total++
	if outcome == nil || outcome.Failure != nil {
		c.failed++
	}
	if outcome != nil {
		c.bytes += outcome.Bytes()
	}
	replies := known.replies
	known.replies = nil
	c.ended = append(c.ended, id)
	for ; c.bytes > wire.MaxKeptBytes; c.old++ {
		c.dropLocked(c.byID[c.ended[c.old]])
	}
	for len(c.ended) > wire.MaxKnownCalls {
		c.dropLocked(c.byID[c.ended[0]])
		delete(c.byID, c.ended[0])
		c.ended, c.old, c.forgot = c.ended[1:], max(c.old-1, 0), true
	}
	c.restedLocked()
	return replies
}

// stop cancels a call that runs.
func (c *calls) stop(cancel *wire.Cancel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byID[cancel.CallID]; known != nil && known.over.IsZero() {
		known.stopped = true
		known.cancel(&Cancelled{*cancel})
	}
}

// isStopped reports whether a call that runs was cancelled by a node.
func (c *calls) isStopped(id wire.CallID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id].stopped
}

// newest is the reply of the node that waits for a call; empty after the call's end.
func (c *calls) newest(id wire.CallID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[id]
	if known == nil || len(known.replies) == 0 {
		return ""
	}
	return known.replies[len(known.replies)-1]
}

// recorded drops the outcome of a call.
func (c *calls) recorded(id wire.CallID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepQuestionsLocked(func(w withdrawal) bool { return w.question.CallID != id })
	if known := c.byID[id]; known != nil && !known.over.IsZero() {
		c.dropLocked(known)
	}
}

// dropLocked drops the outcome of a call, if it is there.
func (c *calls) dropLocked(known *knownCall) {
	if known.outcome != nil {
		c.bytes -= known.outcome.Bytes()
		known.outcome = nil
	}
}

// forgetOld drops outcomes that no node has recorded for a long time.
func (c *calls) forgetOld(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepQuestionsLocked(func(w withdrawal) bool { return now.Sub(w.at) <= c.keep })
	for ; c.old < len(c.ended); c.old++ {
		known := c.byID[c.ended[c.old]]
		if now.Sub(known.over) <= c.keep {
			return
		}
		c.dropLocked(known)
	}
}

// readers are the replies that wait for outcomes.
func (c *calls) readers() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.byID {
		list = append(list, known.replies...)
	}
	return list
}

// counts are the calls that run, and those that ended and failed since the start.
func (c *calls) counts() (running, ended, failed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.byID) - len(c.ended)), c.total, c.failed
}

// drain refuses new calls from now on. It returns false if it did before.
func (c *calls) drain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	c.draining, c.idle = true, make(chan struct{})
	c.restedLocked()
	return true
}

func (c *calls) restedLocked() {
	if !c.draining || len(c.byID) > len(c.ended) || c.hooks > 0 {
		return
	}
	select {
	case <-c.idle: // a hook came after the last call
	default:
		close(c.idle)
	}
}

// hooked adds to the number of hooks that run.
func (c *calls) hooked(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks += n
	c.restedLocked()
}

// rest waits until no call and no hook runs.
func (c *calls) rest(ctx context.Context) error {
	c.mu.Lock()
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call handles a call of a node: the tool runs in a goroutine of its own, once for each id.
func (i *Instance) call(m *nats.Msg) {
	var in wire.Call
	if err := json.Unmarshal(m.Data, &in); err != nil {
		_ = i.send(m.Reply, &wire.Progress{Error: &wire.Error{Code: wire.CodeBadRequest, Message: err.Error()}})
		return
	}
	if i.isForeign(in.Term) {
		return
	}
	run, at := i.runner(&in), (*placed)(nil)
	ctx, end := context.WithCancelCause(i.ctx)
	cancel := end
	if _, ok := i.cfg.Plugin.(Program); !ok {
		cancel = func(error) { end(nil) } // for tools the cause of a cancel is context.Canceled, as in a node
	}
	first, answer := i.calls.join(&in, m.Reply, cancel, func() (refused *wire.Error) {
		if run == nil {
			return &wire.Error{Code: wire.CodeUnknownTool, Field: "tool", Message: fmt.Sprintf("no tool %q", in.Tool)}
		}
		at, refused = i.owns(&in)
		return refused
	})
	if answer.Outcome != nil {
		messages, _ := encoded(answer.Outcome)
		i.publish(m.Reply, messages)
	} else {
		_ = i.send(m.Reply, &answer)
	}
	if !first {
		cancel(nil)
		return
	}
	begun := i.begin(func() {
		defer cancel(nil)
		defer i.sessions.done(at)
		messages, outcome := encoded(i.run(ctx, &in, run))
		for _, reply := range i.calls.end(in.CallID, outcome, time.Now()) {
			i.publish(reply, messages)
		}
	})
	if !begun {
		cancel(nil)
		i.sessions.done(at)
		for _, reply := range i.calls.end(in.CallID, nil, time.Now()) {
			_ = i.send(reply, &wire.Progress{Error: draining()}) // it has not run: the node gives it to another instance
		}
	}
}

// draining is the refusal of a call by an instance that ends.
func draining() *wire.Error {
	return &wire.Error{Code: wire.CodeDraining, Message: "the instance takes no new calls"}
}

// runFunc runs a call.
type runFunc func(ctx context.Context, call plugin.Call) *wire.Outcome

// runner is the function that runs a call; nil if the plugin has no such tool.
func (i *Instance) runner(in *wire.Call) runFunc {
	if p, ok := i.cfg.Plugin.(Program); ok {
		if !slices.ContainsFunc(i.manifest.Tools, func(t wire.Tool) bool { return t.Name == in.Tool }) {
			return nil
		}
		return func(ctx context.Context, call plugin.Call) *wire.Outcome { return p.Call(ctx, in, call) }
	}
	tool, ok := i.tools.Find(in.Tool)
	if !ok {
		return nil
	}
	return func(ctx context.Context, call plugin.Call) *wire.Outcome {
		result, err := tool.Handler(ctx, call, in.Args)
		if errors.Is(err, context.Canceled) && i.calls.isStopped(in.CallID) { // no failure: it obeyed
			return &wire.Outcome{Cancelled: true}
		}
		return outcomeOf(&result, err)
	}
}

func (i *Instance) cancelCall(m *nats.Msg) {
	var c wire.Cancel
	if json.Unmarshal(m.Data, &c) == nil {
		i.calls.stop(&c)
	}
}

func (i *Instance) recorded(m *nats.Msg) {
	var id wire.CallID
	if json.Unmarshal(m.Data, &id) == nil {
		i.calls.recorded(id)
	}
}

// run runs a call, and sends what it prints. A panic is a failure.
func (i *Instance) run(ctx context.Context, in *wire.Call, run runFunc) (outcome *wire.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			i.cfg.Logger.Error("tool panicked", zap.String("call", string(in.Call)), zap.ByteString("stack", debug.Stack()))
			outcome = &wire.Outcome{Failure: &wire.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("tool panicked: %v", p)}}
		}
	}()
	shown := output.New(func(o wire.Output) { _ = i.send(i.calls.newest(in.CallID), &wire.Progress{Output: &o}) })
	defer shown.Close()
	call := plugin.Call{
		Session: in.Session, Turn: in.Turn, Effect: in.Call, ID: in.Model, Key: in.Key, Attempt: 1, Again: in.Again, Once: in.Once,
	}
	call.Run.Output = func(stream string, offset int64, text string) {
		if offset < 0 {
			shown.Add(cmp.Or(stream, plugin.StreamStdout), text)
			return
		}
		shown.AddAt(cmp.Or(stream, plugin.StreamStdout), offset, text)
	}
	call.Run.Request = i.calls.questions(in.CallID, i.requests(in))
	call.Run.Ask, call.Run.Bodies = i.calls.asks(in.CallID, call.Run.Request), newBodies(in.Session, call.Run.Request)
	return run(ctx, call)
}
