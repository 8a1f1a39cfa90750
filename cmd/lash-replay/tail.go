package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

type tailCmd struct {
	Session   string `arg:"" optional:"" help:"Session."`
	Last      int    `default:"10" placeholder:"N" help:"Begin with the last N commits. Default: ${default}."`
	UntilIdle bool   `help:"End when no turn runs or waits. Without it the session's close, or ctrl-c, ends the command."`
	JSON      bool   `name:"json" help:"One object a line, with the whole payload, as events has it."`
}

// Help is shown by --help.
func (*tailCmd) Help() string {
	return `Lists the last events of a session, and new ones as they happen. It reads the history four times a second, so it needs no right to receive
anything live. A store without a running node, and an archive, have no new ones.`
}

// tailEvery is the interval at which tail looks for new commits.
const tailEvery = 250 * time.Millisecond

// Run lists events until the session is closed, or idle with --until-idle.
func (c *tailCmd) Run(ctx context.Context, e *env) error {
	if c.Last < 0 {
		return fmt.Errorf("--last %d: want 0 or more commits", c.Last)
	}
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := src.State(ctx, id)
	if err != nil {
		return err
	}
	t := &tailing{e: e, json: c.JSON, state: s}
	if c.Last > 0 {
		for entry, err := range src.Log().Read(ctx, id, s.Seq-min(s.Seq-1, events.Seq(c.Last-1))) {
			if err != nil {
				return err
			}
			if entry.Seq > s.Seq {
				break
			}
			if err := t.print(entry); err != nil {
				return err
			}
		}
	}
	return t.follow(ctx, src, c.UntilIdle, moves(src))
}

// tailing is a session that is followed.
type tailing struct {
	e     *env
	json  bool
	state *projector.State
}

// moves reports whether other programs append to the source: it is a running server.
func moves(src source) bool {
	l, ok := src.(*busSource)
	return ok && len(l.servers) == 0
}

// follow prints new commits. It ends without an error when the user stops it, and at once where nothing can move.
func (t *tailing) follow(ctx context.Context, src source, untilIdle, moving bool) error {
	for {
		if err := t.e.Flush(); err != nil {
			return err
		}
		if !moving || t.state.Status == projector.StatusClosed || untilIdle && t.state.Idle() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailEvery):
		}
		last, err := src.Log().Last(ctx, t.state.Session)
		if err == nil && last != t.state.Seq {
			err = follow.Continue(ctx, src.Log(), src, t.state, last, func(_ *projector.State, entry events.Entry) error { return t.print(entry) })
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has stopped it
		}
		if err != nil {
			return err
		}
	}
}

func (t *tailing) print(entry events.Entry) error {
	enc := json.NewEncoder(t.e.Out)
	enc.SetEscapeHTML(false)
	for i := range entry.Commit.Events {
		if !t.json {
			t.e.println(lineOf(entry, i))
			continue
		}
		if err := enc.Encode(eventjson.Of(entry, i)); err != nil {
			return err
		}
	}
	return nil
}
