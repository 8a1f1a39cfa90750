package servicetest

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// parks starts turn t1, which waits in a call of the tool.
func (b *bench) parks(tool string) events.SessionID {
	b.t.Helper()
	id := b.open()
	b.submit(id, "t1", "call "+tool)
	b.await(id, "parked turn", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && (len(t.Asks) > 0 || len(t.Calls) > 0 && t.Calls[0].Pended)
	})
	return id
}

const theCall = events.EffectID("t1/0/0")

var toolCases = []testCase{
	{"approve", func(b *bench) {
		id := b.parks("gated")
		list, err := b.Approvals(b.ctx, id)
		b.must("approvals", err, nil)
		if len(list) != 1 || list[0].Effect != theCall || list[0].Tool != "gated" || string(list[0].Args) != "{}" {
			b.t.Fatalf("approvals: got %+v, want one of %s", list, theCall)
		}
		b.must("approve", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: theCall, Granted: true, By: "me"}), nil)
		r, err := b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said open")
		out, err := b.ToolOutput(b.ctx, id, theCall)
		b.must("output", err, nil)
		equal(b, "output", out, "open")
		_, err = b.ToolOutput(b.ctx, id, "t1/9/9")
		b.must("output", err, api.ErrUnknownCall)
	}},
	{"approve_unasked", func(b *bench) {
		err := b.Approve(b.ctx, b.open(), events.ToolApprovalGiven{Effect: theCall, Granted: true})
		b.must("approve", err, api.ErrNotAsked)
	}},
	{"resolve", func(b *bench) {
		id := b.parks("later")
		b.must("resolve", b.ResolveTool(b.ctx, id, theCall, events.ToolResult{Text: "from outside"}), nil)
		r, err := b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said from outside")
	}},
	{"resolve_unknown", func(b *bench) {
		b.must("resolve", b.ResolveTool(b.ctx, b.open(), theCall, events.ToolResult{Text: "x"}), api.ErrUnknownTurn)
	}},
	{"tool_state", func(b *bench) {
		id := b.open()
		s, err := b.ToolState(b.ctx, id)
		b.must("tools", err, nil)
		var names []string
		for _, t := range s.Tools {
			names = append(names, t.Name)
		}
		equal(b, "tools", slices.Contains(names, "gated") && slices.Contains(names, "later"), true)
		b.must("set", s.SetAvailability("later", events.Override(events.AvailOff)), nil)
		generation, err := b.ApplyToolState(b.ctx, id, s)
		b.must("apply", err, nil)
		equal(b, "generation", generation, s.Generation+1)
		_, err = b.ApplyToolState(b.ctx, id, s)
		equal(b, "stale", *as[*api.GenerationError](b, "apply", err), api.GenerationError{Expected: s.Generation, Actual: generation})
		now, err := b.ToolState(b.ctx, id)
		b.must("tools", err, nil)
		equal(b, "generation now", now.Generation, generation)
		next, err := b.SetToolsAvailability(b.ctx, id, []string{"gated", "later"}, "")
		b.must("set", err, nil)
		equal(b, "next generation", next, generation+1)
		_, err = b.SetToolsAvailability(b.ctx, id, []string{"nothing"}, "")
		b.must("set", err, api.ErrUnknownTool)
	}},
	{"tool_source", func(b *bench) {
		id := b.open()
		sources := func(more bool) {
			b.t.Helper()
			list, err := b.ToolSources(b.ctx, id)
			b.must("sources", err, nil)
			equal(b, "sources", list, []api.ToolSource{{Name: "more", Added: more, Known: true}, {Name: "same", Known: true}})
		}
		says := func(turn events.TurnID, want string) {
			b.t.Helper()
			b.submit(id, turn, "call extra")
			r, err := b.Await(b.ctx, id, turn)
			b.must("await", err, nil)
			equal(b, "text has "+want, strings.Contains(r.Text, want), true)
		}
		says("t1", "not available")
		sources(false)
		s, err := b.ToolState(b.ctx, id)
		b.must("tools", err, nil)
		at := s.Generation
		next := func(name string, now int64, err error) {
			b.t.Helper()
			b.must(name, err, nil)
			at++
			equal(b, "generation after "+name, now, at)
		}
		now, err := b.AddToolSource(b.ctx, id, "more")
		next("add", now, err)
		sources(true)
		says("t2", "you said extra")
		now, err = b.AddToolSource(b.ctx, id, "more")
		next("add again", now, err)
		sources(true)
		_, err = b.AddToolSource(b.ctx, id, "same")
		equal(b, "field", as[*events.FieldError](b, "add a taken name", err).Field, "source")
		_, err = b.AddToolSource(b.ctx, id, "nothing")
		b.must("add nothing", err, api.ErrUnknownSource)
		now, err = b.RefreshCatalog(b.ctx, id)
		next("refresh", now, err)
		says("t3", "you said extra")
		now, err = b.RemoveToolSource(b.ctx, id, "more")
		next("remove", now, err)
		sources(false)
		says("t4", "not available")
		_, err = b.RemoveToolSource(b.ctx, id, "more")
		b.must("remove again", err, api.ErrUnknownSource)
	}},
	{"monitor", func(b *bench) {
		id := b.open()
		spec := events.MonitorSpec{ID: "m1", Command: "echo one; echo two; sleep 1000", Persistent: true}
		b.must("start", b.StartMonitor(b.ctx, id, spec), nil)
		b.await(id, "lines", func(s *projector.State) bool { return s.Feed.Sequence >= 2 })
		snap, err := b.MonitorSnapshot(b.ctx, id)
		b.must("snapshot", err, nil)
		equal(b, "active", snap.Active, 1)
		equal(b, "command", snap.Monitors[0].Spec.Command, spec.Command)
		u, err := b.TakeMonitorUpdates(b.ctx, id)
		b.must("take", err, nil)
		var lines []string
		for _, e := range u.Events {
			lines = append(lines, e.Message)
		}
		equal(b, "lines", lines, []string{"one", "two"})
		u, err = b.TakeMonitorUpdates(b.ctx, id)
		b.must("take", err, nil)
		equal(b, "lines again", len(u.Events), 0)
		b.must("stop", b.StopMonitor(b.ctx, id, "m1"), nil)
		b.must("stop", b.StopMonitor(b.ctx, id, "m9"), api.ErrUnknownMonitor)
	}},
	{"task", func(b *bench) {
		id := b.open()
		b.must("start", b.StartMonitor(b.ctx, id, events.MonitorSpec{ID: "m1", Command: "sleep 1000", Persistent: true}), nil)
		list, err := b.Tasks(b.ctx, id)
		b.must("tasks", err, nil)
		if len(list) != 1 || list[0].ID != events.TaskOf("m1") {
			b.t.Fatalf("tasks: got %+v, want that of m1", list)
		}
		got, err := b.CancelTask(b.ctx, id, events.TaskOf("m1"))
		b.must("cancel", err, nil)
		equal(b, "state", got.State, events.TaskCancelled)
		got, err = b.Task(b.ctx, id, events.TaskOf("m1"))
		b.must("task", err, nil)
		equal(b, "state", got.State, events.TaskCancelled)
		_, err = b.CancelTask(b.ctx, id, "t9")
		b.must("cancel", err, api.ErrUnknownTask)
		_, err = b.Task(b.ctx, id, "t9")
		b.must("task", err, api.ErrUnknownTask)
	}},
}
