package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// requests performs the requests of a call at the node that holds it.
func (i *Instance) requests(in *wire.Call) plugin.RequestFunc {
	slots := make(chan struct{}, wire.MaxCallbacks)
	return func(ctx context.Context, id, method, path string, body json.RawMessage) (int, json.RawMessage, error) {
		if err := events.CheckToken("id", id); err != nil {
			return 0, nil, err
		}
		if len(body) > wire.MaxCallbackBytes {
			return 0, nil, &events.FieldError{Field: "body", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(body), wire.MaxCallbackBytes), Err: events.ErrTooLarge}
		}
		answers, done, err := i.calls.await(in.CallID, id)
		if err != nil {
			return 0, nil, err
		}
		defer done()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
		ends := ctx.Done()
		late := time.NewTimer(math.MaxInt64)
		defer late.Stop()
		message := &wire.Progress{Callback: &wire.Callback{ID: id, Method: method, Path: path, Body: body}}
		repeat := time.NewTicker(wire.CallbackRepeat)
		defer repeat.Stop()
		for {
			if err := i.send(i.calls.newest(in.CallID), message); errors.As(err, new(*wire.Error)) {
				return 0, nil, err
			}
			select {
			case answer := <-answers:
				return answer.Status, answer.Body, nil
			case <-repeat.C:
			case <-ends:
				if path == wire.AskPath { // a question is withdrawn
					return 0, nil, context.Cause(ctx)
				}
				ends = nil // the node answers with what the history has
				late.Reset(wire.CallbackLate)
			case <-late.C:
				return 0, nil, fmt.Errorf("%w: the call ended before the node answered callback %q", events.ErrOutcomeUnknown, id)
			}
		}
	}
}

// ErrCallEnded refuses a callback of a call that has ended: it was not sent.
var ErrCallEnded = errors.New("the call has ended, and its callbacks with it")

// questions performs requests. One that asks people, and whose ctx ends before they answer, is withdrawn: by the tool, or by the end of
// its call, but not by the end of the instance, as another one may continue the call.
func (c *calls) questions(call wire.CallID, request plugin.RequestFunc) plugin.RequestFunc {
	return func(ctx context.Context, id, method, path string, body json.RawMessage) (int, json.RawMessage, error) {
		if method != http.MethodPost || path != wire.AskPath {
			return request(ctx, id, method, path, body)
		}
		c.waitsAgain(wire.Question{CallID: call, ID: id})
		status, data, err := request(ctx, id, method, path, body)
		if err != nil {
			c.gaveUp(ctx, wire.Question{CallID: call, ID: id})
		}
		return status, data, err
	}
}

// gaveUp withdraws a question whose wait has ended with ctx.
func (c *calls) gaveUp(ctx context.Context, q wire.Question) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStopped) {
		c.withdraw(q, time.Now())
	}
}

// asks asks people by requests of [calls.questions], which wait for the answer.
func (c *calls) asks(call wire.CallID, request plugin.RequestFunc) plugin.AskFunc {
	return func(ctx context.Context, id, question string, details json.RawMessage) (given events.ToolApprovalGiven, err error) {
		body, err := json.Marshal(&wire.Ask{Question: question, Details: details})
		if err != nil {
			return given, fmt.Errorf("details: %w", err)
		}
		status, data, err := request(ctx, id, http.MethodPost, wire.AskPath, body)
		for err == nil && status == http.StatusNotFound {
			select { // a node of a version without questions: the question stays open until another node has the call
			case <-time.After(wire.CallbackRepeat):
				status, data, err = request(ctx, id, http.MethodPost, wire.AskPath, body)
			case <-ctx.Done():
				c.gaveUp(ctx, wire.Question{CallID: call, ID: id})
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			return given, err
		}
		var answer wire.Answer
		if status != http.StatusOK || json.Unmarshal(data, &answer) != nil {
			return given, &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: fmt.Sprintf("the node does not ask: status %d, %s", status, data)}
		}
		return events.ToolApprovalGiven{Granted: answer.Granted, By: answer.By, Reason: answer.Reason}, nil
	}
}

// await receives the answer of a callback. Errors: [ErrCallEnded]; a [*events.FieldError] where another one with the id waits.
func (c *calls) await(call wire.CallID, id string) (answers <-chan *wire.CallbackAnswer, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[call]
	if known == nil || !known.over.IsZero() {
		return nil, nil, ErrCallEnded
	}
	if known.answers[id] != nil {
		return nil, nil, &events.FieldError{Field: "id", Reason: fmt.Sprintf("%q waits for its answer already", id), Err: events.ErrInvalid}
	}
	if known.answers == nil {
		known.answers = make(map[string]chan *wire.CallbackAnswer)
	}
	answer := make(chan *wire.CallbackAnswer, 1)
	known.answers[id] = answer
	return answer, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(known.answers, id)
	}, nil
}

// answered handles the answer of a callback. A second one is dropped.
func (i *Instance) answered(m *nats.Msg) {
	var a wire.CallbackAnswer
	if json.Unmarshal(m.Data, &a) != nil {
		return
	}
	i.calls.mu.Lock()
	defer i.calls.mu.Unlock()
	known := i.calls.byID[a.CallID]
	if known == nil || known.answers[a.ID] == nil {
		return
	}
	select {
	case known.answers[a.ID] <- &a:
	default:
	}
}
