package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/api"
)

// commitJSON is a commit in the stream: its events were appended together.
type commitJSON struct {
	Seq    events.Seq        `json:"seq" jsonschema:"sequence of the commit: the cursor that resumes after it"`
	Events []eventjson.Event `json:"events"`
}

// deltaJSON is a part of the streaming reply, for display only. A newer call or attempt retracts the earlier text.
type deltaJSON struct {
	Turn      events.TurnID    `json:"turn"`
	Iteration int64            `json:"iteration"`
	Call      int64            `json:"call" jsonschema:"start of the model call in microseconds since 1970. It orders the model calls of an iteration, which a takeover repeats"`
	Attempt   int64            `json:"attempt" jsonschema:"number of the try of this call, from 1"`
	N         int64            `json:"n" jsonschema:"number of the delta in its attempt, from 0"`
	Kind      events.PartKind  `json:"kind,omitempty" jsonschema:"text or reasoning"`
	Text      string           `json:"text,omitempty"`
	Retry     *retryJSON       `json:"retry,omitempty" jsonschema:"set if the call failed and will be tried again"`
	Message   *sideMessageJSON `json:"message,omitempty" jsonschema:"message of running code, outside of all replies"`
	Output    *toolOutputJSON  `json:"output,omitempty" jsonschema:"what a tool call prints, outside of all replies. Then call is the start of an attempt of the tool in microseconds since 1970, and n counts the pieces of the attempt from 1. A missing n is lost text"`
	Event     *pluginEventJSON `json:"event,omitempty" jsonschema:"what a plugin shows while the reply arrives; the commit of the reply has it, too"`
}

// pluginEventJSON is data of a plugin for display.
type pluginEventJSON struct {
	Plugin string          `json:"plugin"`
	Data   json.RawMessage `json:"data"`
}

// toolOutputJSON is text that a running tool call has printed. The result of the call counts.
type toolOutputJSON struct {
	Call   events.EffectID `json:"call" jsonschema:"id of the call: TURN/ITERATION/INDEX"`
	Stream string          `json:"stream" jsonschema:"stdout, stderr, log, progress or another word"`
	Offset int64           `json:"offset" jsonschema:"bytes that the attempt printed to the stream before this text"`
	Text   string          `json:"text"`
}

// retryJSON reports that a failed model call will be retried.
type retryJSON struct {
	WaitMillis int64  `json:"wait_ms"`
	Attempt    int64  `json:"attempt" jsonschema:"number of the failed attempt, from 1"`
	Attempts   int64  `json:"attempts" jsonschema:"limit of attempts; 0: they are limited by time alone"`
	Reason     string `json:"reason"`
}

// sideMessageJSON is a message of running code, outside of its result.
type sideMessageJSON struct {
	Text string `json:"text"`
	Kind string `json:"kind,omitempty"`
}

// gapJSON reports that this reader lost deltas before the next one. The commit has the full reply.
type gapJSON struct {
	Turn      events.TurnID `json:"turn"`
	Iteration int64         `json:"iteration"`
}

func watchEvents(c *httpRequest) (reply, error) {
	cursor, err := c.cursor()
	if err != nil {
		return reply{}, err
	}
	list, err := c.observe(c.Context(), c.session, cursor)
	return reply{stream: list}, err
}

// observe observes a session. A refusal is an error of its own, so that it can be a normal response, outside of the stream.
func (c *httpRequest) observe(ctx context.Context, id events.SessionID, cursor events.Seq) (iter.Seq2[message, error], error) {
	first, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.s.cfg.RequestTimeout) // so that it finishes after the request was cancelled
	defer cancel()
	s, err := c.s.cfg.Service.State(first, id)
	if err == nil && cursor > s.Seq {
		err = &api.CursorError{Session: id, Cursor: cursor, Last: s.Seq}
	}
	if err != nil {
		return nil, err
	}
	var records []events.RedactionRecord
	if s.Redacted > 0 && c.s.cfg.Redactions != nil {
		if records, err = c.s.cfg.Redactions(first, id); err != nil {
			return nil, err
		}
	}
	return observed(c.s.cfg.Service.Observe(ctx, id, cursor), records), nil
}

// observed converts a session's observations to messages.
func observed(list iter.Seq2[api.Observed, error], records []events.RedactionRecord) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for o, err := range list {
			var m message
			switch {
			case err != nil:
			case o.Commit != nil:
				m = message{id: strconv.FormatUint(uint64(o.Seq), 10), name: "commit", data: commitOf(events.Entry{Seq: o.Seq, Commit: o.Commit}, records)}
			case o.Delta != nil:
				m = message{name: "delta", data: deltaOf(o.Delta)}
			case o.Gap != nil:
				m = message{name: "gap", data: gapJSON{Turn: o.Gap.Turn, Iteration: o.Gap.Iteration}}
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

func commitOf(e events.Entry, records []events.RedactionRecord) commitJSON {
	out := commitJSON{Seq: e.Seq, Events: make([]eventjson.Event, len(e.Commit.Events))}
	for i := range out.Events {
		out.Events[i] = eventjson.Of(e, i)
		out.Events[i].Redact(records, e)
	}
	return out
}

func deltaOf(d *api.Delta) deltaJSON {
	out := deltaJSON{Turn: d.Turn, Iteration: d.Iteration, Call: d.Call / int64(time.Microsecond), Attempt: d.Attempt, N: d.N, Kind: d.Kind, Text: d.Text}
	if r := d.Retry; !r.IsZero() {
		out.Retry = &retryJSON{WaitMillis: r.WaitMillis, Attempt: r.Attempt, Attempts: r.Attempts, Reason: r.Reason}
	}
	if m := d.Message; !m.IsZero() {
		out.Message = &sideMessageJSON{Text: m.Text, Kind: m.Kind}
	}
	if t := d.Output; !t.IsZero() {
		out.Output = &toolOutputJSON{Call: t.Call, Stream: t.Stream, Offset: t.Offset, Text: t.Text}
	}
	if e := d.Event; !e.IsZero() {
		out.Event = &pluginEventJSON{Plugin: e.Plugin, Data: e.Data}
	}
	return out
}

func watchTurn(c *httpRequest) (reply, error) {
	as := c.URL.Query().Get("as")
	if as != "" && as != "activity" {
		return reply{}, invalidParam("as", "must be activity, where it is given")
	}
	list, err := c.s.cfg.Service.WatchTurn(c.Context(), c.session, c.turn())
	switch {
	case err != nil:
		return reply{}, err
	case as != "":
		return reply{stream: messagesOf("activity", api.Activities(list))}, nil
	}
	return reply{stream: messagesOf("event", list)}, nil
}

// messagesOf sends each item of a sequence under one name.
func messagesOf[T any](name string, list iter.Seq2[T, error]) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for e, err := range list {
			if !yield(message{name: name, data: &e}, err) {
				return
			}
		}
	}
}
