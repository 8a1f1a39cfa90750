package httpapi

import (
	"context"
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
				delta := *o.Delta
				delta.Call /= int64(time.Microsecond)
				m = message{name: "delta", data: delta}
			case o.Gap != nil:
				m = message{name: "gap", data: o.Gap}
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
