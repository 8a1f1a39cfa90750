package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// maxAsked is how often people are asked for an answer that fits the schema of a question.
const maxAsked = 3

// Actions of answers to elicitations.
const (
	accept  = "accept"
	decline = "decline"
	dismiss = "cancel"
)

// questionsAtOnce limits the questions that a server sends as requests and that wait at once.
const questionsAtOnce = 4

// maxQuestionBytes limits the JSON of a question. An approval has less of it.
const maxQuestionBytes = 64 << 10

// Limits of an approval, in bytes.
const (
	maxQuestion = 4000
	maxDetails  = 32 << 10
)

// guarded handles the messages that a server sends by itself. The library reads some of them unchecked, in goroutines of its own,
// where a panic ends the process.
func (r *run) guarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, in mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				r.source.warn("a message of the server is invalid", zap.String("method", method), zap.String("error", fmt.Sprint(p)))
				result, err = nil, invalidMessage(method, p)
			}
		}()
		switch in := in.(type) {
		case *mcp.ElicitRequest:
			answer, err := r.ask(ctx, in.Params)
			if err != nil {
				return nil, err
			}
			return answer, nil
		case *mcp.ElicitationCompleteNotificationRequest:
			return nil, nil //nolint:nilnil // no call waits for it
		}
		return next(ctx, method, in)
	}
}

// invalidMessage is the refusal of a message that the library could not read.
func invalidMessage(what string, cause any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("%s is invalid: %v", what, cause)}
}

// ask asks people what the server asks by a request of its own.
func (r *run) ask(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	default:
		return nil, refuse("%d questions wait already", questionsAtOnce)
	}
	for {
		call, err := r.owner()
		if err != nil {
			if r.source.warn("a question of the server is refused: it does not say which call asks", zap.Error(err)) {
				r.print("a question of the server was refused, as it does not say which call asks: " + err.Error())
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the question does not say which call asks, and people cannot be asked: " + err.Error()}
		}
		answer, err := call.elicit(ctx, p)
		r.answered(call)
		if !errors.Is(err, errCallEnded) {
			return answer, err
		}
	}
}

// errCallEnded means that the call in which people were asked has ended. The question may be another call's.
var errCallEnded = errors.New("the call has ended")

// elicit asks people what a server asks during a call. Their answer is that of an approval: a refusal declines, and the
// reason of a grant has the content. Errors: a [*jsonrpc.Error] for what cannot be asked; the
// cause of ctx's end; [errCallEnded].
func (a *attempt) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	q, err := questionOf(p)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	for text, n := q.text, 1; n <= maxAsked; n++ {
		if ctx.Err() != nil { // the server cancelled the question before a person was asked
			return nil, context.Cause(ctx)
		}
		if !a.mayAsk() {
			return nil, refuse("the call has asked %d questions, which is the limit", maxQuestions)
		}
		given, err := a.ask(ctx, text, q.details)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case a.ctx.Err() != nil:
			return nil, errCallEnded
		case err != nil:
			_ = a.source.warn("a question of the server is dismissed", zap.Error(err))
			return &mcp.ElicitResult{Action: dismiss}, nil
		case !given.Granted:
			return &mcp.ElicitResult{Action: decline}, nil
		}
		content, err := q.content(given.Reason)
		if err == nil {
			return &mcp.ElicitResult{Action: accept, Content: content}, nil
		}
		text = fmt.Sprintf("%s\n\nThe %d. answer does not fit: %s", q.text, n, events.Clip(err.Error(), 500, "..."))
	}
	return &mcp.ElicitResult{Action: dismiss}, nil
}

// question is what a server asks.
type question struct {
	text    string
	details json.RawMessage
	form    *jsonschema.Schema // of the content; nil: the answer has none
}

func questionOf(p *mcp.ElicitParams) (q question, err error) {
	if p == nil {
		return q, errors.New("params: are missing")
	}
	if data, err := json.Marshal(p); err != nil || len(data) > maxQuestionBytes {
		return q, fmt.Errorf("params: have more than %d bytes, or are no JSON", maxQuestionBytes)
	}
	if (p.Mode == "url") != (p.URL != "") || p.URL != "" && p.RequestedSchema != nil {
		return q, errors.New("mode: want url, and no schema, where there is a URL")
	}
	q.text = strings.ToValidUTF8(p.Message, "\uFFFD")
	if p.URL != "" {
		q.text += "\n" + strings.ToValidUTF8(p.URL, "\uFFFD")
	}
	if q.text = strings.TrimSpace(q.text); q.text == "" {
		return q, errors.New("message: is empty")
	}
	q.text = events.Clip(q.text, maxQuestion/2, "...") // the rest is for what an answer lacks
	if p.RequestedSchema == nil {
		return q, nil
	}
	form, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return q, fmt.Errorf("requestedSchema: %w", err)
	}
	if len(form) > maxDetails/2 {
		return q, fmt.Errorf("requestedSchema: has %d bytes, limit is %d", len(form), maxDetails/2)
	}
	if q.form, err = schema.Parse("requestedSchema", form); err == nil {
		_, err = schema.Compile("requestedSchema", q.form)
	}
	if err != nil {
		return q, err
	}
	details := map[string]any{"requestedSchema": json.RawMessage(form)}
	if defaults := q.defaults(); len(defaults) > 0 {
		details["defaults"] = defaults // what an answer without these fields has
	}
	q.details, err = json.Marshal(details)
	return q, err
}

// defaults are the defaults of the fields. The library gives none to fields that are required.
func (q *question) defaults() map[string]any {
	all := make(map[string]any)
	for name, field := range q.form.Properties {
		var value any
		if field != nil && json.Unmarshal(field.Default, &value) == nil && value != nil {
			all[name] = value
		}
	}
	return all
}

// content is what the reason of an answer says, the JSON of an object or the value of the only field, with the defaults of the other fields.
func (q *question) content(reason string) (map[string]any, error) {
	if q.form == nil {
		return nil, nil //nolint:nilnil // there is no content
	}
	content := q.defaults()
	reason = strings.TrimSpace(reason)
	names := slices.Sorted(maps.Keys(q.form.Properties))
	switch {
	case strings.HasPrefix(reason, "{"):
		if err := json.Unmarshal([]byte(reason), &content); err != nil {
			return nil, fmt.Errorf("the text is no JSON: %w", err)
		}
	case reason == "" && len(content) > 0:
	case len(names) == 1:
		if value, ok := single(q.form.Properties[names[0]].Type, reason); ok {
			content[names[0]] = value
		}
	case reason != "":
		return nil, fmt.Errorf("want the JSON of an object with %s", strings.Join(names, ", "))
	}
	form, err := schema.Compile("requestedSchema", q.form)
	if err == nil {
		err = form.Validate(content)
	}
	return content, err
}

// single is a text as the value of the only field. An empty one confirms a field that is true or false, and has no default; else the field
// has no value.
func single(kind, text string) (value any, ok bool) {
	switch {
	case text == "" && kind == "boolean":
		return true, true
	case text == "":
		return nil, false
	case kind != "string" && json.Unmarshal([]byte(text), &value) == nil:
		return value, true
	}
	return text, true
}

// ask asks people. Another run of the call asks the same questions by the same ids, and those that were withdrawn by further ones.
func (a *attempt) ask(ctx context.Context, text string, details json.RawMessage) (given events.ToolApprovalGiven, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()
	a.clock.think(1)
	defer a.clock.think(-1)
	sum := sha256.Sum256(slices.Concat([]byte(text), []byte{0}, details))
	digest := hex.EncodeToString(sum[:])[:16]
	for {
		given, err = a.caller.Ask(ctx, fmt.Sprintf("elicit-%s-%d", digest, a.count(digest)), text, details)
		if err != nil || given.Granted || given.By != wire.CallerOf(a.source.name) {
			return given, err
		}
	}
}

// mayAsk counts the questions of the call.
func (a *attempt) mayAsk() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions++
	return a.questions <= maxQuestions
}

// count counts the questions of a digest.
func (a *attempt) count(digest string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[digest]++
	return a.asked[digest]
}

// maxRounds limits how often a server asks by the results of one call, maxAsks how much it asks at once, maxQuestions how much one call
// asks in all, by results and by requests: each question stands in the history.
const (
	maxRounds    = 10
	maxAsks      = 16
	maxQuestions = maxRounds * maxAsks
)

// busyPause is the time before a request is repeated whose result asks nothing: the server is busy.
const busyPause = time.Second

// refuse is the error of a server whose questions cannot be asked.
func refuse(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf(format, args...)}
}

// rounds performs a call until its result asks nothing: a server may ask people by a result, or by a refusal, and gets the call again, with
// the answers. Errors: those of do; a [*jsonrpc.Error] for what cannot be answered.
func rounds(ctx context.Context, do func(answers mcp.InputResponseMap, state string) (*mcp.CallToolResult, error)) error {
	var given mcp.InputResponseMap
	state := ""
	for range maxRounds {
		r, err := do(given, state)
		if pages := pagesOf(err); pages != nil {
			opened, failed := answersOf(ctx, pages)
			for _, answer := range opened {
				if page, ok := answer.(*mcp.ElicitResult); !ok || page.Action != accept {
					failed = err
				}
			}
			if failed != nil {
				return failed
			}
			continue
		}
		if err != nil || r.InputRequests == nil {
			return err
		}
		if given, err = answersOf(ctx, r.InputRequests); err != nil {
			return err
		}
		state = r.RequestState
	}
	return refuse("the server asks again after %d answers", maxRounds)
}

// pagesOf are the pages that people have to open before a call, as its refusal says; nil: it does not say so.
func pagesOf(err error) mcp.InputRequestMap {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refused.Code != mcp.CodeURLElicitationRequired {
		return nil
	}
	var data struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(refused.Data, &data) != nil || len(data.Elicitations) == 0 {
		return nil
	}
	pages := make(mcp.InputRequestMap)
	for i, p := range data.Elicitations {
		pages[fmt.Sprintf("%08d", i)] = p // in their order
	}
	return pages
}

// answersOf asks people what a result asks, one question after the other.
func answersOf(ctx context.Context, asks mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	switch {
	case a == nil || len(asks) > maxAsks:
		return nil, refuse("the server asks %d questions at once, limit is %d", len(asks), maxAsks)
	case len(asks) == 0 && !delay.Sleep(ctx, busyPause):
		return nil, context.Cause(ctx)
	}
	a.asks = true
	answers := make(mcp.InputResponseMap, len(asks))
	for _, id := range slices.Sorted(maps.Keys(asks)) {
		p, ok := asks[id].(*mcp.ElicitParams)
		if !ok {
			return nil, refuse("the server asks for completions or roots, which it cannot have")
		}
		answer, err := a.elicit(ctx, p)
		if err != nil {
			return nil, err
		}
		answers[id] = answer
	}
	return answers, nil
}
