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

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

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
func (s *Source) guarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.warn("a message of the server is invalid", zap.String("method", method), zap.String("error", fmt.Sprint(p)))
				result, err = nil, invalidMessage(method, p)
			}
		}()
		switch r := r.(type) {
		case *mcp.ElicitRequest:
			answer, err := s.ask(ctx, r.Params)
			if err != nil {
				return nil, err
			}
			return answer, nil
		case *mcp.ElicitationCompleteNotificationRequest:
			return nil, nil //nolint:nilnil // no call waits for it
		}
		return next(ctx, method, r)
	}
}

// invalidMessage is the refusal of a message that the library could not read.
func invalidMessage(what string, cause any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("%s is invalid: %v", what, cause)}
}

// ask asks people what the server asks by a request of its own.
func (s *Source) ask(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%d questions wait already", questionsAtOnce)}
	}
	for {
		call, err := s.calls.owner()
		if err != nil {
			if s.warn("a question of the server is refused: it does not say which call asks", zap.Error(err)) {
				s.calls.print("a question of the server was refused, as it does not say which call asks: " + err.Error())
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the question does not say which call asks, and people cannot be asked: " + err.Error()}
		}
		answer, err := call.elicit(ctx, p)
		s.calls.answered(call)
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
func (c *activeCall) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	q, err := questionOf(p)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	for text, n := q.text, 1; n <= maxAsked; n++ {
		given, err := c.ask(ctx, text, q.details)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case c.ctx.Err() != nil:
			return nil, errCallEnded
		case err != nil:
			_ = c.warn("a question of the server is dismissed", zap.Error(err))
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
		if field != nil && json.Unmarshal(field.Default, &value) == nil {
			all[name] = value
		}
	}
	return all
}

// content is what the reason of an answer says: the JSON of an object, or the value of the only field.
func (q *question) content(reason string) (map[string]any, error) {
	if q.form == nil {
		return nil, nil //nolint:nilnil // there is no content
	}
	content := make(map[string]any)
	reason = strings.TrimSpace(reason)
	names := slices.Sorted(maps.Keys(q.form.Properties))
	switch {
	case strings.HasPrefix(reason, "{"):
		if err := json.Unmarshal([]byte(reason), &content); err != nil {
			return nil, fmt.Errorf("the text is no JSON: %w", err)
		}
	case len(names) == 1:
		if field := q.form.Properties[names[0]]; reason == "" && field.Default != nil {
			break // the default
		} else if value, ok := single(field.Type, reason); ok {
			content[names[0]] = value
		}
	case reason != "":
		return nil, fmt.Errorf("want the JSON of an object with %s", strings.Join(names, ", "))
	}
	for name, value := range q.defaults() {
		if _, given := content[name]; !given {
			content[name] = value
		}
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
func (c *activeCall) ask(ctx context.Context, text string, details json.RawMessage) (given events.ToolApprovalGiven, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	c.clock.think(1)
	defer c.clock.think(-1)
	sum := sha256.Sum256(slices.Concat([]byte(text), []byte{0}, details))
	digest := hex.EncodeToString(sum[:])[:16]
	for {
		given, err = c.caller.Ask(ctx, fmt.Sprintf("elicit-%s-%d", digest, c.count(digest)), text, details)
		if err != nil || given.Granted || given.By != wire.CallerOf(c.server) {
			return given, err
		}
	}
}
