package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/turn"
)

type statsCmd struct {
	Sessions []string `arg:"" optional:"" help:"Sessions, by default all; or archive files when no source is given."`
	JSON     bool     `name:"json" help:"Print one JSON object."`
}

// totals counts the contents of histories. It is printed as eventjson writes it.
type totals struct {
	Sessions  int64
	Commits   int64
	Events    int64
	Bytes     int64 // of commits, as encoded
	Turns     int64 // requested or scheduled
	Kinds     map[events.Kind]int64
	TurnEnds  map[events.TurnEnd]int64
	ToolCalls map[string]int64         // by tool
	Outcomes  map[events.Outcome]int64 // of calls
	Models    map[string]events.Usage  // by model, of replies, partial ones included
}

// Run counts the contents of the sessions.
func (c *statsCmd) Run(ctx context.Context, e *env) error {
	e.quiet = c.JSON
	t := &totals{Kinds: make(map[events.Kind]int64), TurnEnds: make(map[events.TurnEnd]int64), ToolCalls: make(map[string]int64), Outcomes: make(map[events.Outcome]int64), Models: make(map[string]events.Usage)}
	err := e.eachReadable(ctx, c.Sessions, func(src source, id events.SessionID) error { return t.session(ctx, src, id) })
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	if c.JSON {
		return errors.Join(e.writeJSON(eventjson.Value{V: t}), err)
	}
	e.printf("sessions     %d\ncommits      %d, %d bytes\nevents       %d\n", t.Sessions, t.Commits, t.Bytes, t.Events)
	printCounts(e, t.Kinds)
	e.println("turns       ", t.Turns)
	printCounts(e, t.TurnEnds)
	e.println("tool calls   by tool, and their results by outcome")
	printCounts(e, t.ToolCalls)
	printCounts(e, t.Outcomes)
	e.println("tokens       by model")
	for _, model := range slices.Sorted(maps.Keys(t.Models)) {
		u := t.Models[model]
		e.printf("  %-28s %d: %d in, %d out, cache %d read, %d written\n", transcript.VisibleLine(model), u.Total(), u.Input, u.Output, u.CacheRead, u.CacheWrite)
	}
	return err
}

func printCounts[K ~string](e *env, counts map[K]int64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		e.printf("  %-28s %d\n", name, counts[name])
	}
}

func (t *totals) session(ctx context.Context, src source, id events.SessionID) error {
	turns := make(map[events.TurnID]bool)
	for entry, err := range src.Log().Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		t.Commits++
		t.Bytes += int64(len(entry.Data))
		for i := range entry.Commit.Events {
			t.event(&entry.Commit.Events[i], turns)
		}
	}
	t.Turns += int64(len(turns))
	t.Sessions++
	return nil
}

// event counts an event of a session with these turns.
func (t *totals) event(ev *events.Event, turns map[events.TurnID]bool) {
	t.Events++
	t.Kinds[ev.Kind]++
	switch p := ev.Payload.(type) {
	case *events.TurnScheduled, *events.TurnRequested:
		turns[ev.Turn] = true
	case *events.TurnCompleted:
		t.TurnEnds[p.End]++
	case *events.TurnDiverted:
		t.TurnEnds[p.End]++
	case *events.ModelReplied:
		t.Models[p.Model] = t.Models[p.Model].Add(p.Cost())
		for _, call := range turn.ToolCalls(p.Parts) {
			t.ToolCalls[call.Tool]++
		}
	case *events.ModelInterrupted:
		t.Models[p.Model] = t.Models[p.Model].Add(p.Usage)
	case *events.ToolReturned:
		for i := range p.Results {
			t.Outcomes[cmp.Or(p.Results[i].Outcome, "success")]++
		}
	case *events.ToolLost:
		t.Outcomes[events.OutcomeLost] += int64(len(p.Calls))
	}
}
