package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/transcript"
)

type eventsCmd struct {
	Session string     `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	From    events.Seq `default:"1" placeholder:"SEQ" help:"Begin at this sequence. Default: ${default}."`
	Follow  bool       `short:"f" help:"List new events too as they happen, of a running server: until the session is closed, or ctrl-c."`
	JSON    bool       `name:"json" help:"One object a line, with the whole payload."`
}

// listedEvents are the events of a session.
type listedEvents struct {
	*eventsCmd
	env       *env
	src       source
	redacted  []events.RedactionRecord
	state     *projector.State
	encodedTo *json.Encoder
}

// Run lists the events of the history, unknown kinds too.
func (c *eventsCmd) Run(ctx context.Context, e *env) error {
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	last, err := src.Log().Last(ctx, id)
	if err != nil {
		return err
	} else if c.From == 0 || c.From > last {
		return program.OutsideHistory("--from", c.From, id, last)
	}
	l := &listedEvents{eventsCmd: c, env: e, src: src, encodedTo: json.NewEncoder(e.Out)}
	l.encodedTo.SetEscapeHTML(false)
	if l.redacted, err = src.Redactions(ctx, id); err != nil {
		return err
	}
	for entry, err := range src.Log().Read(ctx, id, c.From) {
		if err == nil {
			err = l.print(entry)
		}
		if err != nil {
			return err
		}
		last = entry.Seq
	}
	if server, ok := src.(*busSource); !c.Follow || !ok || !server.running {
		return nil // nothing else appends to it
	}
	if l.state, err = follow.ReadAt(ctx, src.Log(), src, id, last); err != nil {
		return err
	}
	return l.follow(ctx)
}

// followEvery is the interval at which --follow looks for new commits.
const followEvery = 250 * time.Millisecond

// follow prints new commits. It ends without an error when the user stops it.
func (l *listedEvents) follow(ctx context.Context) error {
	for {
		if err := l.env.Flush(); err != nil || l.state.Status == projector.StatusClosed {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
		last, err := l.src.Log().Last(ctx, l.state.Session)
		if err == nil && last != l.state.Seq {
			err = follow.Continue(ctx, l.src.Log(), l.src, l.state, last, func(_ *projector.State, entry events.Entry) error { return l.print(entry) })
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (l *listedEvents) print(entry events.Entry) error {
	for i := range entry.Commit.Events {
		if !l.JSON {
			l.env.println(lineOf(entry, i))
			continue
		}
		ev := eventjson.Of(entry, i)
		ev.Redact(l.redacted, entry)
		if err := l.encodedTo.Encode(ev); err != nil {
			return err
		}
	}
	return nil
}

// lineBytes is how much of a payload a line shows.
const lineBytes = 200

// lineOf is an event on one line: sequence, time, kind, turn, actor, and the beginning of its payload as JSON.
func lineOf(e events.Entry, pos int) string {
	ev := &e.Commit.Events[pos]
	var text string
	switch {
	case ev.Redacted != nil:
		text = fmt.Sprintf("redacted, digest %x", ev.Redacted[:6])
	case ev.Locked() != 0:
		text = connect.Advised(&events.KeyError{ID: ev.Locked()}).Error()
	case ev.Payload == nil:
		text = fmt.Sprintf("unknown kind, version %d, %d bytes", ev.V, len(ev.Raw))
	default:
		text = eventjson.Value{V: ev.Payload}.String()
	}
	text = events.Clip(text, lineBytes, "...")
	return fmt.Sprintf("%-7s %s %-21s %s %s  %s", fmt.Sprintf("%d.%d", e.Seq, pos), eventjson.Clock(e.Commit.At), ev.Kind,
		cmp.Or(string(ev.Turn), "-"), transcript.VisibleLine(e.Commit.Actor.String()), strings.ReplaceAll(text, "\n", " "))
}
