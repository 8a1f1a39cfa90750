package turn_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// duty plays a line about the session's needs and times. It returns false for other lines.
func (p *player) duty(name string, a args) bool {
	p.t.Helper()
	switch name {
	case "schedule": // schedule <turn> [<text>] at=<ms> [busy=<policy>]
		p.fold(events.TurnID(a.word(0)), &events.TurnScheduled{Input: a.input(1), At: events.Millis(a.num("at")), Busy: events.WhenBusy(a.get("busy"))})
	case "timed": // timed <effect> <text> at=<ms>
		p.fold(p.s.Turn().ID, &events.ToolResultScheduled{Effect: events.EffectID(a.word(0)), At: events.Millis(a.num("at")), Result: events.ToolResult{Text: a.word(1)}, By: "clock"})
	case "question": // question <effect> [until=<ms>]
		p.fold(p.s.Turn().ID, &events.ToolApprovalAsked{Effect: events.EffectID(a.word(0)), Tool: "t", Until: events.Millis(a.num("until"))})
	case "answer": // answer <effect>
		p.fold(p.s.Turn().ID, &events.ToolApprovalGiven{Effect: events.EffectID(a.word(0)), Granted: true})
	case "end": // end <turn>
		p.fold(events.TurnID(a.word(0)), &events.TurnCompleted{End: events.EndCancelled})
	case "monitor": // monitor <id>
		p.decided(task.StartMonitor(p.s, events.MonitorSpec{ID: events.MonitorID(a.word(0)), Command: "true"}))
		k, _ := p.s.Task(events.TaskOf(events.MonitorID(a.word(0))))
		p.decided(task.ClaimFor(p.s, task.ClaimOf(k), "w1"))
	case "line": // line <monitor> <text>
		k, _ := p.s.Task(events.TaskOf(events.MonitorID(a.word(0))))
		p.decided(task.Report(p.s, task.ClaimOf(k), []task.Line{{Text: a.word(1)}}))
	case "due": // due now=<ms>
		p.commitAll(p.request(turn.DueEvents(p.s, events.Millis(a.num("now")))))
	case "give_up": // give_up <code>
		list, err := turn.GiveUp(p.s, events.Issue{Kind: "runtime", Code: a.word(0)})
		if err != nil {
			fmt.Fprintf(&p.out, "  error: %v\n", err)
			return true
		}
		p.commitAll(p.request(list))
	case "duty": // duty now=<ms>
		p.standing(events.Millis(a.num("now")))
	default:
		return false
	}
	return true
}

// decided commits the decision of another package.
func (p *player) decided(list []events.Event, err error) {
	p.t.Helper()
	runtest.NoError(p.t, err)
	p.commitAll(list)
}

func (p *player) commitAll(list []events.Event) {
	p.t.Helper()
	if len(list) > 0 {
		p.commit(list)
	}
	runtest.WantError(p.t, "check", p.s.Check(), nil)
}

// standing renders the session's needs at a time.
func (p *player) standing(now events.Millis) {
	word := "needs no worker"
	if turn.NeedsWorker(p.s, now) {
		word = "needs a worker"
	}
	if due := turn.Due(p.s); due != 0 {
		word += fmt.Sprintf(", due at %d", due)
	}
	if turn.NeedsStartCalls(p.s) {
		word += ", a call is to begin"
	}
	fmt.Fprintf(&p.out, "  %s\n", word)
}

// TestDueEventsMatchNeeds: on random histories, DueEvents, NeedsWorker and Due agree at every time.
func TestDueEventsMatchNeeds(t *testing.T) {
	t.Parallel()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{
		{"open"},
		{"tools", "once", "pure:none"},
		{"schedule", "a", "x", "at=10"},
		{"schedule", "b", "x", "at=20", "busy=interrupt"},
		{"request", "t1", "go"},
		{"claim", "w1"},
		{"reply", "call=pure", "call=once", "call=pure"},
		{"pend", "0"},
		{"pend", "2"},
		{"timed", "t1/0/0", "late", "at=15"},
		{"question", "t1/0/1", "until=12"},
		{"due", "now=11"},
		{"due", "now=12"},
		{"begin"},
		{"results", "1:r"},
		{"due", "now=20"},
		{"due", "now=20"},
		{"stop"},
		{"claim", "w1"},
		{"close"},
	} {
		p.happen(line)
		for now := events.Millis(0); now < 25; now++ {
			due, list := turn.Due(p.s), turn.DueEvents(p.s, now)
			if isDue := due != 0 && due <= now; isDue != (len(list) > 0) || isDue && !turn.NeedsWorker(p.s, now) {
				t.Errorf("after %v, at %d: due %d, %d due events, needs a worker %v", line, now, due, len(list), turn.NeedsWorker(p.s, now))
			}
		}
	}
}

// TestFollowOnAvoidsKnownTurns switches frames while clients have turns with the ids of follow-on turns.
func TestFollowOnAvoidsKnownTurns(t *testing.T) {
	t.Parallel()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{
		{"open"},
		{"tools", "pure:none"},
		{"request", "t1", "go"},
		{"claim", "w1"},
		{"reply", "call=pure"},
		{"request", "t1-frame-1", "waits"},
		{"schedule", "t1-frame-1x", "later", "at=10"},
	} {
		p.happen(line)
	}
	p.step(turn.Results{Results: []events.ToolResult{{Text: "r", Control: events.ControlSwitch, Switch: events.FrameSwitch{Frame: "f2", Task: "go on"}}}})
	if q := p.s.Queue; len(q) != 2 || q[0].ID != "t1-frame-1xx" || q[0].Root != "t1" || q[1].ID != "t1-frame-1" {
		t.Errorf("queue: got %+v, want the follow-on with an id of its own, and then the other", q)
	}
}

// TestBegunAfterTheGate: a call is recorded as started after the hooks have run and it waits for nothing else.
func TestBegunAfterTheGate(t *testing.T) {
	t.Parallel()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{{"open"}, {"tools", "once"}, {"request", "t1", "go"}} {
		p.happen(line)
	}
	p.step(turn.Claim{Worker: "w1", Tools: p.tools, Points: []events.HookPoint{events.PointBeforeTool}})
	p.happen([]string{"reply", "call=once", "call=once", "call=once"})
	unbegun := func(when string, want ...int64) {
		t.Helper()
		if got := turn.NeedsStartCalls(p.s); got != (len(want) > 0) {
			t.Errorf("%s: got unbegun %v, want %v", when, got, want)
		}
		for i := range p.s.Turn().Calls {
			if got := p.s.Turn().Calls[i].Called; got {
				t.Errorf("%s: call %d has begun", when, i)
			}
		}
		if len(want) == 0 {
			return
		}
		out, err := turn.Step(p.s, turn.StartCalls{})
		called, ok := out.Events[0].Payload.(*events.ToolCalled)
		if err != nil || !ok || !slices.Equal(called.Calls, want) || out.Linger {
			t.Errorf("%s: got %+v, %v, want the calls %v", when, out.Events, err, want)
		}
	}
	unbegun("while the plugins are asked")
	ask := func(call int) events.ToolApprovalAsked {
		return events.ToolApprovalAsked{Effect: turn.ToolEffect("t1", 0, int64(call)), Tool: "once"}
	}
	p.step(turn.Hooks{Ran: events.HookRan{Point: events.PointBeforeTool}, Asks: []events.ToolApprovalAsked{ask(0), ask(1), ask(2)}})
	unbegun("while all wait for an answer")
	p.step(turn.Answer{ToolApprovalGiven: events.ToolApprovalGiven{Effect: "t1/0/1", Granted: true}})
	unbegun("after one answer", 1)
	p.step(turn.Answer{ToolApprovalGiven: events.ToolApprovalGiven{Effect: "t1/0/2"}})
	unbegun("after a refusal", 1)
	p.step(turn.Claim{Worker: "w2", Tools: p.tools, Points: []events.HookPoint{events.PointBeforeTool}})
	if calls := p.s.Turn().Calls; !calls[1].Called || calls[0].Called || calls[2].Called || calls[1].Done {
		t.Errorf("after a takeover: got %+v, want call 1 begun, and none lost", calls)
	}
	p.fold("t1", &events.TurnCancelRequested{Request: "r"})
	if turn.NeedsStartCalls(p.s) {
		t.Error("cancelled: got a call that is to begin")
	}
}

// TestFindTurn finds queued, scheduled, running and finished turns.
func TestFindTurn(t *testing.T) {
	t.Parallel()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{
		{"open"},
		{"request", "old", "go"},
		{"claim", "w1"},
		{"reply", "hi"},
		{"request", "runs", "go"},
		{"claim", "w1"},
		{"request", "waits", "go"},
		{"schedule", "later", "x", "at=10"},
		{"schedule", "never", "x", "at=20"},
		{"end", "never"},
	} {
		p.happen(line)
	}
	for id, want := range map[events.TurnID]string{"old": "ended", "runs": "running", "waits": "queued", "later": "scheduled", "never": "ended", "other": ""} {
		place, err := p.s.FindTurn(id)
		got := ""
		switch {
		case place.Running != nil && place.Running.ID == id:
			got = "running"
		case place.Queued != nil && place.Queued.ID == id:
			got = "queued"
		case place.Scheduled != nil && place.Scheduled.ID == id:
			got = "scheduled"
		case place.Ended != nil && place.Ended.ID == id:
			got = "ended"
		}
		if known := want != ""; got != want || err != nil || place.Known() != known || (place.AcceptedSeq() != 0) != known || (place.InputDigest() != "") != known {
			t.Errorf("%s: got %q (known %v, accepted at %d), %v, want %q", id, got, place.Known(), place.AcceptedSeq(), err, want)
		}
	}
}

// TestResolvable: calls of the running iteration without a result are resolvable.
func TestResolvable(t *testing.T) {
	t.Parallel()
	p := &player{t: t, s: projector.New("s1")}
	for _, line := range [][]string{
		{"open"},
		{"tools", "pure:none"},
		{"request", "t1", "go"},
		{"claim", "w1"},
		{"reply", "call=pure"},
		{"results", "0:r"},
		{"reply", "call=pure", "call=pure", "call=pure"},
		{"results", "0:r"},
		{"pend", "1"},
		{"pend", "2"},
		{"resolve", "t1/1/2", "r"},
	} {
		p.happen(line)
	}
	for effect, want := range map[events.EffectID]bool{
		"t1/0/0": false, "t1/1/0": false, "t1/1/1": true, "t1/1/2": false, "t1/1/3": false, "t2/1/1": false, "": false,
	} {
		runtest.Equal(t, string(effect), turn.Resolvable(p.s.Turn(), effect), want)
	}
}
