package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lash-go/lash/cmd/internal/chat"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/transcript"
)

type showCmd struct {
	Session string        `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	Turn    events.TurnID `xor:"form" placeholder:"TURN" help:"This turn only."`
	Full    bool          `help:"Shorten nothing, and show reasoning."`
	JSON    bool          `name:"json" xor:"form" help:"Print the conversation in its current frame, with the session's settings, as one JSON object."`
}

// Help is shown by --help.
func (*showCmd) Help() string {
	return `Shows what happened in a session, in order and as a chat shows it: also replies that were cut off, branches that were left, and what the
session waits for at its end. lash-replay events has everything else, and lash-replay ui the prompts of model calls.`
}

// shownSession is the session of a show command.
type shownSession struct {
	*showCmd
	env   *env
	src   source
	state *projector.State // of the view, which folds it
	view  *chat.View
	turn  events.TurnID // of the last commit
	found bool          // the turn that was asked for
}

// Run shows the history.
func (c *showCmd) Run(ctx context.Context, e *env) error {
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	if c.JSON {
		return c.json(ctx, e, src, id)
	}
	s, err := follow.ReadAt(ctx, src.Log(), src, id, 1) // with what a copy began with
	if err != nil {
		return err
	}
	v := &shownSession{showCmd: c, env: e, src: src, state: s, view: chat.NewView(s, chat.Options{Full: c.Full, More: "--full shows all"})}
	if err := v.history(ctx); err != nil {
		return err
	}
	if c.Turn != "" && !v.found {
		return fmt.Errorf("--turn %q: session %s has no such turn; lash-replay show lists them", c.Turn, id)
	}
	if text := v.view.Status(); text != "" {
		e.println(text)
	}
	e.printf("\nsession %s, %s, at sequence %d", id, s.Status, s.Seq)
	for _, more := range [][2]string{{"owner", s.Owner}, {"parent", string(s.Parent)}, {"copy of", string(s.Forked.Session)}} {
		if more[1] != "" {
			e.printf(", %s %s", more[0], more[1])
		}
	}
	e.println()
	return e.showRedactions(ctx, src, id)
}

// history shows what the session began with, and then each commit.
func (v *shownSession) history(ctx context.Context) error {
	began, err := v.view.Recent(math.MaxInt)
	if err != nil {
		return err
	}
	if v.Turn == "" {
		v.print(began)
	}
	for entry, err := range v.src.Log().Read(ctx, v.state.Session, 2) {
		if err == nil {
			err = v.commit(ctx, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *shownSession) commit(ctx context.Context, entry events.Entry) error {
	(&chat.Talk{Blobs: v.src, Full: true}).Fill(ctx, entry.Commit)
	lines, err := v.view.Seen(api.Observed{Seq: entry.Seq, Commit: entry.Commit})
	if err != nil {
		return err
	}
	list := entry.Commit.Events
	if v.Turn != "" && !slices.ContainsFunc(list, func(ev events.Event) bool { return ev.Turn == v.Turn }) {
		return nil
	}
	v.found = true
	if turn := list[0].Turn; turn != v.turn && turn != "" {
		v.env.printf("\n--- turn %s, at sequence %d, %s ---\n", turn, entry.Seq, eventjson.Clock(entry.Commit.At))
		v.turn = turn
	}
	v.print(lines)
	for i := range list {
		if list[i].Absent() {
			v.env.println(lineOf(entry, i))
		}
		if kind := list[i].Kind; kind != events.KindTurnCompleted && kind != events.KindTurnDiverted {
			continue
		}
		if record, err := v.state.Record(list[i].Turn); err != nil {
			return err
		} else if record != nil {
			v.env.println("--- end of turn", transcript.EndLine(record), "---")
		}
	}
	return nil
}

func (v *shownSession) print(lines []chat.Line) {
	for _, l := range lines {
		v.env.println(l)
	}
}

func (c *showCmd) json(ctx context.Context, e *env, src source, id events.SessionID) error {
	s, err := src.State(ctx, id)
	if err == nil {
		err = follow.Complete(ctx, src, s)
	}
	if err != nil {
		return err
	}
	view, err := s.View()
	if err == nil && c.Full {
		view, err = blob.FillView(ctx, src, view)
	}
	if err != nil {
		return err
	}
	return e.writeJSON(eventjson.Value{V: view})
}
