package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
)

type eventsCmd struct {
	Session string     `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	From    events.Seq `default:"1" placeholder:"SEQ" help:"Begin at this sequence. Default: ${default}."`
	JSON    bool       `name:"json" help:"One object a line, with the whole payload."`
}

// Run lists the events of the history, unknown kinds too.
func (c *eventsCmd) Run(ctx context.Context, e *env) error {
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	if last, err := src.Log().Last(ctx, id); err != nil {
		return err
	} else if c.From == 0 || c.From > last {
		return point.Outside("--from", c.From, id, last)
	}
	if c.JSON {
		return c.list(ctx, e, src, id)
	}
	return e.paged(func() error { return c.list(ctx, e, src, id) })
}

// list writes the events from --from on.
func (c *eventsCmd) list(ctx context.Context, e *env, src source, id events.SessionID) error {
	records, err := src.Redactions(ctx, id)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	for entry, err := range src.Log().Read(ctx, id, c.From) {
		if err != nil {
			return err
		}
		for i := range entry.Commit.Events {
			if c.JSON {
				ev := eventjson.Of(entry, i)
				ev.Redact(records, entry)
				err = enc.Encode(ev)
			} else {
				_, err = fmt.Fprintln(e.Out, lineOf(entry, i))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// lineOf is an event on one line: sequence, time, kind, turn, actor, and a summary.
func lineOf(e events.Entry, pos int) string {
	ev := &e.Commit.Events[pos]
	turn := cmp.Or(string(ev.Turn), "-")
	return strings.TrimRight(fmt.Sprintf("%-7s %s %-21s %s %s  %s",
		fmt.Sprintf("%d.%d", e.Seq, pos), eventjson.Clock(e.Commit.At), ev.Kind, turn, quoted(e.Commit.Actor.String()), summary(ev)), " ")
}
