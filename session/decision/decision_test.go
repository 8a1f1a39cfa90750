package decision_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/decision"
	"github.com/lash-go/lash/session/turn"
)

// history builds the history of a session by the machine itself.
type history struct {
	t    *testing.T
	s    *projector.State
	list []events.Entry
}

func (h *history) add(kind events.ActorKind, list ...events.Event) {
	h.t.Helper()
	n := len(h.list) + 1
	e := events.Entry{Seq: events.Seq(n), Commit: &events.Commit{
		ID: events.CommitID(fmt.Sprintf("c%d", n)), Session: "s1", At: events.Millis(n), Actor: events.Actor{Kind: kind}, Events: list,
	}}
	runtest.NoError(h.t, h.s.Apply(e))
	h.list = append(h.list, e)
}

// step appends what the machine decides on inputs that arrive together, in one commit.
func (h *history) step(inputs ...turn.Input) {
	h.t.Helper()
	s, all := h.s.Clone(), []events.Event(nil)
	for _, in := range inputs {
		out, err := turn.Step(s, in)
		if err != nil {
			h.t.Fatalf("%T: %v", in, err)
		}
		for i := range out.Events {
			s.ApplyUncommitted(&out.Events[i], 1)
		}
		all = append(all, out.Events...)
	}
	h.add(events.ActorNode, all...)
}

func text(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }

func call(id events.CallID) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: "write", Args: []byte("{}")}
}

func reply(n int64, parts ...events.Part) turn.Reply {
	return turn.Reply{ModelReplied: events.ModelReplied{Iteration: n, Parts: parts, Stop: events.StopEnd}}
}

// record is a history with two turns: one with hooks, calls, an injected input and an answer; one that is cancelled during
// its calls.
func record(t *testing.T) *history {
	h := &history{t: t, s: projector.New("s1")}
	tools := []events.ToolEntry{{Name: "write"}}
	hooked := turn.Claim{Worker: "w1", Tools: tools, Points: []events.HookPoint{events.PointBeforeTool, events.PointCheckpoint}}
	h.add(events.ActorClient, events.Of("", &events.SessionOpened{}))
	h.add(events.ActorClient, turn.Request(h.s, "t1", events.TurnRequested{Input: events.TurnInput{Parts: text("go")}})...)
	h.step(hooked)
	h.step(reply(0, text("I write.")[0], call("a"), call("b")), turn.Hooks{
		Ran:  events.HookRan{Point: events.PointBeforeTool},
		Asks: []events.ToolApprovalAsked{{Effect: "t1/0/1", Tool: "write", Plugin: "gate"}},
	})
	h.add(events.ActorClient, events.Of("", &events.InputInjected{Input: "in1", Role: events.RoleUser, Parts: text("faster")}))
	h.add(events.ActorClient, turn.Request(h.s, "t2", events.TurnRequested{Input: events.TurnInput{Parts: text("next")}, Busy: events.BusyReject})...)
	h.step(turn.Results{Results: []events.ToolResult{{Call: 0, Text: "done"}}})
	h.step(turn.Answer{ToolApprovalGiven: events.ToolApprovalGiven{Effect: "t1/0/1", Granted: true}})
	h.step(turn.StartCalls{})
	h.step(turn.Results{Results: []events.ToolResult{{Call: 1, Text: "done too"}}}, turn.Hooks{
		Ran:      events.HookRan{Point: events.PointCheckpoint, At: events.AtAfterWork, Iteration: 1},
		Messages: []events.Message{{Role: events.RoleUser, Parts: text("remember"), Origin: "p"}},
	})
	h.step(reply(1, text("Written.")...), turn.Hooks{Ran: events.HookRan{Point: events.PointCheckpoint, At: events.AtBeforeCompletion, Iteration: 2}})
	h.add(events.ActorClient, turn.Request(h.s, "t3", events.TurnRequested{Input: events.TurnInput{Parts: text("again")}})...)
	h.step(turn.Claim{Worker: "w2", Tools: tools})
	h.step(reply(0, call("c"), call("d")))
	h.step(turn.Claim{Worker: "w3", Tools: tools}) // the calls of w2 are lost
	h.step(reply(1, call("e")))
	h.add(events.ActorClient, events.Of("t3", &events.TurnCancelRequested{Request: "r1"}))
	h.step(turn.Stop{})
	return h
}

// recordSwitches is a history of hooks before model calls that switch frames, once to a frame that exists. after: there are hooks
// after the turns, too.
func recordSwitches(t *testing.T, after bool) *history {
	h := &history{t: t, s: projector.New("s1")}
	claim := turn.Claim{Worker: "w1", Points: []events.HookPoint{events.PointBeforeModel}}
	ends := func(in turn.Hooks) {
		list := []turn.Input{in}
		if after {
			list = append(list, turn.Hooks{Ran: events.HookRan{Point: events.PointAfterTurn, At: events.AtEnd, Iteration: in.Ran.Iteration}})
		}
		h.step(list...)
	}
	if after {
		claim.Points = append(claim.Points, events.PointAfterTurn)
	}
	h.add(events.ActorClient, events.Of("", &events.SessionOpened{}))
	h.add(events.ActorClient, turn.Request(h.s, "t1", events.TurnRequested{Input: events.TurnInput{Parts: text("go")}})...)
	for n, frame := range []events.FrameID{"f2", "f2", "f3"} {
		h.step(claim)
		in := turn.Hooks{Ran: events.HookRan{Point: events.PointBeforeModel, Decisions: []events.Decision{
			{Plugin: "p", Kind: events.DirectiveContribute, Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "x"}}},
			{Plugin: "p", Kind: events.DirectiveSwitch, Name: string(frame)},
		}}}
		in.Switch = &events.FrameSwitch{Frame: frame, Task: "on", Nodes: []events.NewNode{{ID: events.NodeID(frame) + "-seed", Kind: events.NodeMessage, Message: events.Message{
			ID: events.MessageID(frame) + "-seed", Role: events.RoleUser, Parts: text("known"),
		}}}}
		if n == 2 { // an abort wins
			in.Ran.Decisions = append(in.Ran.Decisions, events.Decision{Plugin: "p", Kind: events.DirectiveAbort, Code: "c", Message: "m"})
			in.Abort = &events.Issue{Kind: "plugin", Code: "c", Message: "m"}
		}
		ends(in)
		if n == 1 {
			h.add(events.ActorClient, turn.Request(h.s, "t2", events.TurnRequested{Input: events.TurnInput{Parts: text("again")}})...)
		}
	}
	return h
}

// TestSameSwitches decides the switches of hooks again.
func TestSameSwitches(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		h := recordSwitches(t, after)
		if _, diff := compare(t, h.list); diff != nil {
			t.Errorf("after %t: got %+v, want no difference", after, *diff)
		}
		records, err := h.s.Records()
		var ends []events.TurnEnd
		for _, r := range records {
			ends = append(ends, r.End)
		}
		if want := []events.TurnEnd{events.EndSwitched, events.EndRuntimeError, events.EndPluginAbort}; err != nil || !slices.Equal(ends, want) {
			t.Errorf("after %t: got ends %v, %v, want %v", after, ends, err, want)
		}
	}
}

// TestFailureBehindHooks has hooks before the first model call fail in the commit of those before the turn, which went well.
func TestFailureBehindHooks(t *testing.T) {
	t.Parallel()
	h := &history{t: t, s: projector.New("s1")}
	h.add(events.ActorClient, events.Of("", &events.SessionOpened{}))
	h.add(events.ActorClient, turn.Request(h.s, "t1", events.TurnRequested{Input: events.TurnInput{Parts: text("go")}})...)
	h.step(turn.Claim{Worker: "w1", Points: []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointAfterTurn}})
	h.step(turn.Hooks{Ran: events.HookRan{Point: events.PointBeforeTurn}}, turn.Hooks{Ran: events.HookRan{
		Point: events.PointBeforeModel, Failed: "p", Issue: events.Issue{Kind: "plugin", Code: "c", Message: "m"},
	}}, turn.Hooks{Ran: events.HookRan{Point: events.PointAfterTurn, At: events.AtEnd}})
	if _, diff := compare(t, h.list); diff != nil {
		t.Errorf("got %+v, want no difference", *diff)
	}
}

// compare compares a history up to its first difference.
func compare(t *testing.T, list []events.Entry) (counts decision.Counts, diff *decision.Difference) {
	t.Helper()
	s := projector.New("s1")
	for _, e := range list {
		n, diff, err := decision.Hooks(nil).Compare(t.Context(), s, e)
		runtest.NoError(t, err)
		counts.Commits += n.Commits
		counts.Steps += n.Steps
		counts.Decisions += n.Decisions
		if diff != nil {
			return counts, diff
		}
		runtest.NoError(t, s.Apply(e))
	}
	return counts, nil
}

func TestSameMachine(t *testing.T) {
	t.Parallel()
	h := record(t)
	counts, diff := compare(t, h.list)
	if diff != nil {
		t.Fatalf("difference: got %+v, want none", *diff)
	}
	want := int64(0)
	for _, e := range h.list {
		for i := range e.Commit.Events {
			if k := e.Commit.Events[i].Kind; k != events.KindSessionOpened && k != events.KindInputInjected && k != events.KindTurnCancelRequested {
				want++
			}
		}
	}
	if counts.Decisions != want {
		t.Errorf("compared decisions: got %d, want %d: all events but those of hosts", counts.Decisions, want)
	}
}

// TestEveryDecision drops each event that no input records from the history, one after the other. The difference is at its place.
func TestEveryDecision(t *testing.T) {
	t.Parallel()
	for seq := range record(t).list {
		for i := range record(t).list[seq].Commit.Events {
			h := record(t)
			c := h.list[seq].Commit
			ev := c.Events[i]
			if followsInput(ev.Kind) || i > 0 && c.Events[i-1].Kind == events.KindToolStateApplied { // a catalogue alone is an input
				continue
			}
			c.Events = append(c.Events[:i:i], c.Events[i+1:]...)
			if len(c.Events) == 0 {
				continue
			}
			_, diff := compare(t, h.list[:seq+1])
			if diff == nil || diff.Seq != h.list[seq].Seq {
				t.Errorf("without %s at %d.%d: got %+v, want a difference there", ev.Kind, seq+1, i, diff)
			}
		}
	}
}

// followsInput reports whether an event is the form in which an input is recorded, so that without it the input is gone.
func followsInput(k events.Kind) bool {
	return slices.Contains([]events.Kind{
		events.KindSessionOpened, events.KindInputInjected, events.KindTurnCancelRequested, events.KindTurnRequested, events.KindToolStateApplied,
		events.KindToolReturned, events.KindHookRan, events.KindToolApprovalAsked, events.KindGraphAppended,
	}, k)
}

// TestChangedDecisions changes what the machine decided. The difference names the event and both sides.
func TestChangedDecisions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p events.Payload) bool{
		"end": func(p events.Payload) bool {
			c, ok := p.(*events.TurnCompleted)
			return ok && set(&c.End, events.EndIncomplete)
		},
		"attempt": func(p events.Payload) bool { c, ok := p.(*events.TurnStarted); return ok && set(&c.Attempt, 7) },
		"started": func(p events.Payload) bool { c, ok := p.(*events.ToolCalled); return ok && set(&c.Calls, []int64{9}) },
		"lost":    func(p events.Payload) bool { c, ok := p.(*events.ToolLost); return ok && set(&c.Calls, []int64{0}) },
		"accepted": func(p events.Payload) bool {
			c, ok := p.(*events.InputAccepted)
			return ok && set(&c.Inputs, []events.InputID{"in2"})
		},
		"diverted": func(p events.Payload) bool { c, ok := p.(*events.TurnDiverted); return ok && set(&c.By, "t9") },
		"cancelled": func(p events.Payload) bool {
			c, ok := p.(*events.ToolReturned)
			return ok && c.Results[0].Outcome == events.OutcomeCancelled && set(&c.Results[0].Text, "[cancelled] The call was cancelled, once.")
		},
		"offer": func(p events.Payload) bool { c, ok := p.(*events.ToolStateApplied); return ok && set(&c.Generation, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := record(t)
			seq, index := changeFirst(h.list, change)
			if seq == 0 {
				t.Fatal("the history has no such event")
			}
			_, diff := compare(t, h.list[:seq])
			switch {
			case diff == nil:
				t.Error("difference: got none, want one")
			case diff.Seq != seq || diff.Event != index || diff.Recorded == nil:
				t.Errorf("difference: got %+v, want one at %d.%d with the recorded event", *diff, seq, index)
			}
		})
	}
}

func set[T any](to *T, v T) bool { *to = v; return true }

func changeFirst(list []events.Entry, change func(events.Payload) bool) (events.Seq, int) {
	for _, e := range list {
		for i := range e.Commit.Events {
			if change(e.Commit.Events[i].Payload) {
				return e.Seq, i
			}
		}
	}
	return 0, 0
}

// TestInputsAreNoDecisions changes what came from outside: nothing differs.
func TestInputsAreNoDecisions(t *testing.T) {
	t.Parallel()
	h := record(t)
	for _, e := range h.list {
		e.Commit.At += 1000
		for i := range e.Commit.Events {
			switch p := e.Commit.Events[i].Payload.(type) {
			case *events.TurnStarted:
				p.Worker = "another"
			case *events.ModelReplied:
				p.Usage.Input, p.Model, p.Millis = 7, "another", 9
			case *events.ToolReturned:
				if p.Results[0].Outcome == events.OutcomeSuccess {
					p.Results[0].Text = "another"
				}
			case *events.ToolCalled:
				if e.Commit.Events[i].Turn == "t1" { // calls of another process are not lost with a worker, as those of t3 are
					p.Holders = make([]string, len(p.Calls))
					p.Holders[0] = "instance"
					p.Terms = make([]string, len(p.Calls))
					p.Terms[0] = "term"
				}
			}
		}
	}
	if _, diff := compare(t, h.list); diff != nil {
		t.Errorf("difference: got %+v, want none", *diff)
	}
}
