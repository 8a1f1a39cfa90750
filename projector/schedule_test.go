package projector_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

func scheduled(at events.Millis) *events.TurnScheduled {
	return &events.TurnScheduled{At: at, Input: events.TurnInput{Parts: []events.Part{text("later")}}}
}

func (h *history) check() {
	h.t.Helper()
	runtest.WantError(h.t, "check", h.Check(), nil)
}

func (h *history) scheduledIDs() (list []events.TurnID) {
	for i := range h.Scheduled {
		list = append(list, h.Scheduled[i].ID)
	}
	return list
}

// running has turn t1 run on worker w1.
func running(t *testing.T) *history {
	t.Helper()
	h := begin(t)
	return h.add("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{text("go")}}}, &events.TurnStarted{Attempt: 1, Worker: "w1"})
}

// TestScheduledTurnsStandInOrder: scheduled turns are sorted by time and then by log order.
func TestScheduledTurnsStandInOrder(t *testing.T) {
	t.Parallel()
	h := begin(t)
	for _, s := range []struct {
		id events.TurnID
		at events.Millis
	}{{"c", 30}, {"a", 10}, {"d", 30}, {"b", 20}, {"e", 30}} {
		h.add(s.id, scheduled(s.at))
		h.check()
	}
	if got := h.scheduledIDs(); !slices.Equal(got, []events.TurnID{"a", "b", "c", "d", "e"}) {
		t.Errorf("got %v", got)
	}
	if h.EarliestDue(anyCall) != 10 || len(h.Queue) != 0 {
		t.Errorf("due %d, %d queued, want 10 and none", h.EarliestDue(anyCall), len(h.Queue))
	}
	before := h.Clone()
	h.add("c", &events.TurnRequested{Input: h.Scheduled[2].Input})
	if got := h.scheduledIDs(); !slices.Equal(got, []events.TurnID{"a", "b", "d", "e"}) {
		t.Errorf("after a request: got %v", got)
	}
	if len(before.Scheduled) != 5 || before.Scheduled[2].ID != "c" {
		t.Errorf("the request changed a clone: got %+v", before.Scheduled)
	}
	h.check()
}

// TestScheduledTurnKeepsWhenItWasAccepted, whether it runs or ends before its time.
func TestScheduledTurnKeepsWhenItWasAccepted(t *testing.T) {
	t.Parallel()
	h := begin(t)
	h.add("runs", scheduled(10))
	asked := h.Seq
	h.add("ends", scheduled(20))
	h.say("between")
	h.add("runs", &events.TurnRequested{Input: h.Scheduled[0].Input})
	if q := h.Queue[0]; q.ID != "runs" || q.Seq != asked {
		t.Errorf("queued: got %s accepted at %d, want runs at %d", q.ID, q.Seq, asked)
	}
	h.add("ends", &events.TurnCompleted{End: events.EndCancelled})
	record, err := h.Record("ends")
	if err != nil || record == nil || record.Asked != asked+1 || record.Input != projector.InputDigest(scheduled(0).Input) || record.StartedAt != 0 || record.End != events.EndCancelled {
		t.Errorf("cancelled before its time: got %+v, %v", record, err)
	}
	h.check()
	h.add("runs", &events.TurnStarted{Attempt: 1, Worker: "w1"}, &events.TurnCompleted{End: events.EndFinished})
	if record, err = h.Record("runs"); err != nil || record == nil || record.Asked != asked {
		t.Errorf("finished: got %+v, %v, want it accepted at %d", record, err, asked)
	}
	runtest.Equal(t, "due", h.EarliestDue(anyCall), 0)
	h.check()
}

// TestStartsCountSinceProgress lists the events that reset the count of a turn's attempts.
func TestStartsCountSinceProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list []events.Payload
		want int64
	}{
		"nothing":      {nil, 3},
		"called":       {[]events.Payload{&events.ToolCalled{Calls: []int64{0}}}, 3},
		"nestedCalled": {[]events.Payload{&events.ToolNestedCalled{Effect: "t1/0/0/0", Tool: "t", Digest: strings.Repeat("a", 64)}}, 3},
		"scheduled":    {[]events.Payload{&events.ToolResultScheduled{Effect: "t1/0/0", At: 1}}, 3},
		"cancel":       {[]events.Payload{&events.TurnCancelRequested{Request: "r"}}, 3},
		"replied":      {[]events.Payload{&events.ModelReplied{Parts: []events.Part{call("c")}, Stop: events.StopToolUse}}, 0},
		"lost":         {[]events.Payload{&events.ToolLost{Calls: []int64{0}}}, 0},
		"returned":     {[]events.Payload{&events.ToolReturned{Results: []events.ToolResult{{Text: "r"}}}}, 0},
		"pended":       {[]events.Payload{&events.ToolPended{Calls: []int64{0}}}, 0},
		"approval":     {[]events.Payload{&events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true}}, 0},
		"hook":         {[]events.Payload{&events.HookRan{Point: events.PointBeforeTurn}}, 0},
		"failedModel":  {[]events.Payload{&events.ModelFailed{Error: "overload"}}, 0},
		"released":     {[]events.Payload{&events.TurnReleased{Worker: "w1"}}, 0},
		"startAfter":   {[]events.Payload{&events.TurnReleased{Worker: "w1"}, &events.TurnStarted{Attempt: 4, Worker: "w2"}}, 1},
		"beside":       {[]events.Payload{&events.TurnStarted{Attempt: 4, Worker: "w2"}, &events.ToolLost{Calls: []int64{0}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := running(t).add("t1", &events.TurnStarted{Attempt: 2, Worker: "w2"}).add("t1", &events.TurnStarted{Attempt: 3, Worker: "w1"})
			if len(c.list) > 0 {
				h.add("t1", c.list...)
			}
			if got := h.Turn().Starts; got != c.want {
				t.Errorf("got %d starts, want %d", got, c.want)
			}
			h.add("t9", &events.TurnReleased{Worker: "w1"}, &events.ModelReplied{}) // of another turn
			if got := h.Turn().Starts; got != c.want {
				t.Errorf("after events of another turn: got %d starts, want %d", got, c.want)
			}
			h.check()
		})
	}
}

// TestTurnKnowsItsWorker: the state has the worker that started the last turn, also after its end.
func TestTurnKnowsItsWorker(t *testing.T) {
	t.Parallel()
	h := running(t)
	h.add("t1", &events.TurnStarted{Attempt: 2, Worker: "w2"})
	claimed := events.Millis(100 + h.Seq - 1)
	if run := h.Turn(); run.Worker != "w2" || run.Attempt != 2 || run.ClaimedAt != claimed || h.Worker != "w2" {
		t.Errorf("got %+v, worker %s", run, h.Worker)
	}
	h.add("t1", &events.TurnCompleted{End: events.EndFinished})
	if record, err := h.Record("t1"); err != nil || record.Attempts != 2 || h.Worker != "w2" {
		t.Errorf("ended: got %+v, %v, worker %s", record, err, h.Worker)
	}
}

// TestStartsOfTask counts consecutive starts without progress that are less than a minute apart.
func TestStartsOfTask(t *testing.T) {
	t.Parallel()
	h := begin(t)
	h.add("", &events.TaskRegistered{Task: "k", Runner: "r"})
	starts := func(want int64) {
		t.Helper()
		if k, ok := h.Task("k"); !ok || k.Starts != want {
			t.Errorf("got %+v, want %d starts", k, want)
		}
	}
	start := func(attempt int64) { h.add("", &events.TaskStarted{Task: "k", Worker: "w", Attempt: attempt}) }
	starts(0)
	start(1)
	start(2)
	starts(2)
	start(2) // the attempt is not newer
	starts(2)
	h.add("", &events.TaskProgressed{Task: "k", Message: "half way"})
	starts(0)
	start(3)
	h.add("", &events.TaskStateChanged{Task: "k", State: events.TaskWaiting})
	starts(0)
	start(4)
	start(5)
	starts(2)
	c := &events.Commit{Session: sid, At: 100 + 60_000 + events.Millis(h.Seq), Events: []events.Event{events.Of("", &events.TaskStarted{Task: "k", Worker: "w", Attempt: 6})}}
	runtest.NoError(t, h.Apply(events.Entry{Seq: h.Seq + 1, Commit: c}))
	starts(1)
	h.check()
}

// TestScheduledResult: the first scheduled result of a call of the running turn wins.
func TestScheduledResult(t *testing.T) {
	t.Parallel()
	h := running(t).add("t1", &events.ModelReplied{Parts: []events.Part{call("c0"), call("c1")}, Stop: events.StopToolUse}, &events.ToolPended{Calls: []int64{0, 1}})
	h.add("t1", &events.ToolResultScheduled{Effect: "t1/0/0", At: 50, Result: events.ToolResult{Text: "first"}, By: "a"})
	before := h.Clone()
	h.add("t1", &events.ToolResultScheduled{Effect: "t1/0/0", At: 40, Result: events.ToolResult{Text: "second"}})
	h.add("t9", &events.ToolResultScheduled{Effect: "t1/0/1", At: 40})
	h.add("t1", &events.ToolResultScheduled{Effect: "t1/0/1", At: 60})
	run := h.Turn()
	if first := run.TimedResult("t1/0/0"); first == nil || first.At != 50 || first.Result.Text != "first" || first.By != "a" {
		t.Errorf("got %+v, want the first", first)
	}
	if second := run.TimedResult("t1/0/1"); second == nil || second.At != 60 || len(run.Timed) != 2 {
		t.Errorf("got %+v of %d, want the one of the other call", second, len(run.Timed))
	}
	if run.TimedResult("t1/0/2") != nil || len(before.Turn().Timed) != 1 {
		t.Errorf("no such call: got %+v, a clone has %d", run.TimedResult("t1/0/2"), len(before.Turn().Timed))
	}
	h.check()
}

func anyCall(*projector.Turn, events.EffectID) bool { return true }

// TestEarliestDue: the earliest of scheduled turns, scheduled results and time limits for answers.
func TestEarliestDue(t *testing.T) {
	t.Parallel()
	h := running(t).add("t1", &events.ModelReplied{Parts: []events.Part{call("c0"), call("c1")}, Stop: events.StopToolUse})
	due := func(want events.Millis) {
		t.Helper()
		runtest.Equal(t, "earliest due", h.EarliestDue(anyCall), want)
	}
	due(0)
	h.add("t1", &events.ToolApprovalAsked{Effect: "t1/0/1", Tool: "t"})
	due(0) // no time limit
	h.add("later", scheduled(500))
	due(500)
	h.add("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t", Until: 300})
	due(300)
	h.add("t1", &events.ToolResultScheduled{Effect: "t1/0/1", At: 200})
	due(200)
	if got := h.EarliestDue(func(_ *projector.Turn, call events.EffectID) bool { return call != "t1/0/1" }); got != 300 {
		t.Errorf("without a result that is not owed: got %d, want 300", got)
	}
	h.add("sooner", scheduled(100))
	due(100)
	h.add("sooner", &events.TurnCompleted{End: events.EndCancelled})
	h.add("t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true})
	due(200)
	h.add("t1", &events.TurnCompleted{End: events.EndFailed})
	due(500)
	h.add("later", &events.TurnCompleted{End: events.EndCancelled})
	due(0)
}

// TestCheckFindsBrokenSchedules checks states that no history produces.
func TestCheckFindsBrokenSchedules(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(h *history){
		"scheduled turn b stands before a":             func(h *history) { h.Scheduled[0].At = 99 },
		"turn a occurs twice, the second time":         func(h *history) { h.Scheduled[0].ID = "a" },
		"turn t1 occurs twice, the second time sched":  func(h *history) { h.Scheduled[1].ID = "t1" },
		"turn old occurs twice, the second time sched": func(h *history) { h.Scheduled[1].ID = "old" },
	} {
		h := begin(t)
		h.add("old", scheduled(1)).add("old", &events.TurnCompleted{End: events.EndCancelled})
		h.add("t1", &events.TurnRequested{}).add("b", scheduled(10)).add("a", scheduled(20))
		h.check()
		spoil(h)
		if err := h.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
