package turn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// startHooked plays a turn up to the needs of its first model call, which has hooks.
func startHooked(t *testing.T, after ...events.HookPoint) *player {
	t.Helper()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{{"open"}, {"tools", "pure:none"}, {"request", "t1", "go"}} {
		p.happen(line)
	}
	p.step(turn.Claim{Worker: "w1", Tools: p.tools, Points: append([]events.HookPoint{events.PointBeforeModel}, after...)})
	return p
}

func beforeModel(iteration int64) turn.Hooks {
	return turn.Hooks{Ran: events.HookRan{Point: events.PointBeforeModel, Iteration: iteration}}
}

// TestHooksBeforeEachModelCall: each model call of a turn needs its hooks first, once: neither a takeover nor a fallback needs
// them again. Their decisions may wait for the reply.
func TestHooksBeforeEachModelCall(t *testing.T) {
	t.Parallel()
	p := startHooked(t)
	needs := func(when string, hooks bool, iteration int64) {
		t.Helper()
		n := turn.Next(p.s)
		if hooked := n.Hooks == events.PointBeforeModel; hooked != hooks || n.Model == hooks || n.Iteration != iteration {
			t.Errorf("%s: got needs %+v, want hooks %t of iteration %d", when, n, hooks, iteration)
		}
	}
	needs("claimed", true, 0)
	out, err := turn.Step(p.s, beforeModel(0))
	if err != nil || !out.Linger || len(out.Events) != 1 {
		t.Fatalf("hooks: got %+v, %v, want one event that lingers", out, err)
	}
	p.step(beforeModel(0))
	needs("decided", false, 0)
	_, err = turn.Step(p.s, beforeModel(0))
	runtest.WantError(t, "the same hooks again", err, turn.ErrStale)
	p.step(turn.Claim{Worker: "w2", Tools: p.tools, Points: []events.HookPoint{events.PointBeforeModel}})
	needs("taken over", false, 0)
	p.happen([]string{"configure", "fallbacks=/m2"})
	p.happen([]string{"fail", "server", "again=yes"})
	needs("on the fallback", false, 0)
	p.happen([]string{"reply", "call=pure"})
	p.happen([]string{"results", "0:r"})
	needs("after the results", true, 1)
	p.fold("t1", &events.TurnCancelRequested{Request: "r"})
	if n := turn.Next(p.s); !n.Stop || n.Hooks != "" {
		t.Errorf("cancelled: got %+v, want the end", n)
	}
}

// TestEndsBeforeModelCall: what hooks before a model call can end a turn with, with hooks after the turn and without.
func TestEndsBeforeModelCall(t *testing.T) {
	t.Parallel()
	issue := events.Issue{Kind: "plugin", Code: "c", Message: "m"}
	to := &events.FrameSwitch{Frame: "f2", Task: "go on", Nodes: []events.NewNode{{ID: "seed", Kind: events.NodeMessage, Message: events.Message{
		ID: "seed", Role: events.RoleUser, Parts: textParts("known"),
	}}}}
	for name, tc := range map[string]struct {
		change func(*turn.Hooks)
		end    events.TurnEnd
		issue  events.Issue
	}{
		"failed":           {func(h *turn.Hooks) { h.Ran.Issue, h.Ran.Failed = issue, "p" }, events.EndRuntimeError, issue},
		"abort":            {func(h *turn.Hooks) { h.Abort = &issue }, events.EndPluginAbort, issue},
		"abort_and_switch": {func(h *turn.Hooks) { h.Abort, h.Switch = &issue, to }, events.EndPluginAbort, issue},
		"switch":           {func(h *turn.Hooks) { h.Switch = to }, events.EndSwitched, events.Issue{}},
	} {
		for _, after := range []bool{false, true} {
			p := startHooked(t)
			if after {
				p = startHooked(t, events.PointAfterTurn)
			}
			in := beforeModel(0)
			tc.change(&in)
			p.step(in)
			if after {
				if n := turn.Next(p.s); n.Hooks != events.PointAfterTurn {
					t.Errorf("%s: got needs %+v, want hooks after the turn", name, n)
				}
				p.step(turn.Hooks{Ran: events.HookRan{Point: events.PointAfterTurn, At: events.AtEnd}})
			}
			r, err := p.s.Record("t1")
			if err != nil || r == nil || r.End != tc.end || r.Issue != tc.issue || r.ModelCalls != 0 {
				t.Errorf("%s: got %+v, %v, want %s", name, r, err, tc.end)
			}
			follows := slices.ContainsFunc(p.s.Queue, func(q projector.QueuedTurn) bool { return q.ID == "t1-frame-1" })
			if switched := tc.end == events.EndSwitched; follows != switched || (p.s.Frame().ID == "f2") != switched {
				t.Errorf("%s: got queue %+v in frame %s, want a follow-on: %t", name, p.s.Queue, p.s.Frame().ID, switched)
			}
		}
	}
}

// TestSystemPromptEndsWithItsTurn: what hooks before a model call put into the prompt is there for the rest of the turn.
func TestSystemPromptEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	p := startHooked(t)
	in := beforeModel(0)
	in.Ran.Decisions = []events.Decision{
		{Plugin: "a", Kind: events.DirectiveSystemPrompt, Message: "Be brief."},
		{Plugin: "a", Kind: events.DirectiveContribute, Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "Now."}}},
	}
	p.step(in)
	system := func(when, want string) {
		t.Helper()
		if got, err := p.s.Prompt(); err != nil || got.System != want {
			t.Errorf("%s: got %q, %v, want %q", when, got.System, err, want)
		}
	}
	system("first call", "Be brief.\n\nNow.")
	p.happen([]string{"reply", "call=pure"})
	p.happen([]string{"results", "0:r"})
	p.step(beforeModel(1))
	system("second call", "Be brief.\n\nNow.")
	p.happen([]string{"reply", "done"})
	p.happen([]string{"request", "t2", "go"})
	p.happen([]string{"claim", "w1"})
	system("next turn", "")
	if strings.Contains(p.out.String(), "error") {
		t.Errorf("transcript: got\n%s", p.out.String())
	}
}
