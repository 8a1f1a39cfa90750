package catalogue

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

func monitorEntries() []entry {
	return []entry{
		{"M01", "monitor needs an id and a command", "a blank id or command", "started", "an error", testMonitorBlank},
		{"M02", "only the first line is an input", "three lines that are to queue a turn", "taken", "three events, of which the first alone is an input", testMonitorLines},
		{"M03", "line after the acknowledgement is an input again", "a new line after the wake was acknowledged", "taken", "an input again", testMonitorAck},
		{"M04", "standard error is no input", "a line on standard error", "taken", "an event that is no input", testMonitorStderr},
		{"M05", "notifying monitor makes no input", "a monitor that only notifies", "taken", "never an input", testMonitorNotify},
		{"M06", "unread lines are bounded and the gap shows", "200 lines that nobody took", "taken", "the 128 newest, and the gap shows", testMonitorUnread},
		{"M07", "time limit kills the process group", "a time limit and a command that ignores TERM", "time passes", "failed, the group killed, disarmed", testMonitorTimeout},
		{"M08", "exit status decides the state", "commands that exit with 0 and 3", "snapshot", "exited; failed with status 3", testMonitorExit},
		{"M09", "stopped monitor leaves no process", "a monitor that runs", "stopped", "its processes gone, its task cancelled, and it stays stopped", testMonitorStop},
		{"M10", "unknown monitor is an error to stop", "an unknown monitor", "stopped", "an error", testMonitorUnknown},
		{"M11", "monitors of a killed node are restored", "armed monitors whose node is killed", "another node polls", "running where it is to be restarted; else idle and disarmed", testMonitorRestore},
		{"M12", "monitor starts with the session once", "a monitor that is to run from the session's start", "first poll", "started; registering it again changes nothing", testMonitorSessionStart},
		{"M13", "wake during a turn makes no other turn", "a wake while a turn runs", "the turn goes on", "one input, one delivery, no turn besides", testMonitorWake},
	}
}

// forever is a monitor without output.
func forever(id events.MonitorID) events.MonitorSpec {
	return events.MonitorSpec{ID: id, Command: "sleep 1000", Persistent: true}
}

// inputs renders updates: the message, and the text of the input that it became.
func inputs(list []api.MonitorEvent) []string {
	var lines []string
	for _, e := range list {
		line := e.Message
		if e.Input != "" {
			line += " > " + e.Text
		}
		lines = append(lines, line)
	}
	return lines
}

// processesEnded is closed when every process that had the pipe open for writing has ended. It waits for the first one to
// open it.
func processesEnded(f harness.Fifo, t *testing.T) <-chan struct{} {
	t.Helper()
	_, done := f.Opened(t)
	return done
}

func transferred(name events.TaskID) func(*projector.State) bool {
	return func(s *projector.State) bool {
		t, ok := s.Task(name)
		return ok && t.To != ""
	}
}

func errOf(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("not so")
}

func testMonitorBlank(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	before := b.LastSeq(id)
	for name, spec := range map[string]events.MonitorSpec{
		"id": {Command: "true"}, "command": {ID: "m", Command: " \t"}, "dots": {ID: "a.b", Command: "true"}, "colon": {ID: "plugin:m", Command: "true"},
	} {
		err := b.StartMonitor(b.Ctx, id, spec)
		if !errors.Is(err, events.ErrInvalid) && !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
}

func testMonitorLines(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "printf ' a \\n\\nb\\nc\\n'; sleep 1000"})
	runtest.EqualLists(t, "events", inputs(b.AwaitUpdates(id, 3)), []string{`a > Monitor event "m": a`, "b", "c"})
	s := b.StateOf(id)
	runtest.Equal(t, "pending inputs", len(s.Inputs), 1)
	runtest.Equal(t, "input", s.Inputs[0].ID, "monitor-m-1")
	runtest.Equal(t, "events", b.MonitorRecord(id, "m").Events, 3)
	runtest.Equal(t, "events after taking", len(b.AwaitUpdates(id, 3)), 0)
	reports := harness.Find[*events.MonitorReported](b, id)
	t.Logf("%d commits of lines", len(reports))
}

func testMonitorAck(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	f := harness.NewFifo(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "echo one; read x < '" + string(f) + "'; echo $x; read x < '" + string(f) + "'; echo $x; sleep 1000"})
	runtest.EqualLists(t, "first", inputs(b.AwaitUpdates(id, 1)), []string{`one > Monitor event "m": one`})
	f.Write(t, "two")
	runtest.EqualLists(t, "while it is pending", inputs(b.AwaitUpdates(id, 2)), []string{"two"})
	runtest.WantError(t, "ack", b.AckMonitorWakes(b.Ctx, id, []events.MonitorID{"m"}), nil)
	f.Write(t, "three")
	runtest.EqualLists(t, "after the ack", inputs(b.AwaitUpdates(id, 3)), []string{`three > Monitor event "m": three`})
}

func testMonitorStderr(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: `echo "$GREETING" >&2; pwd >&2; sleep 1000`, Cwd: "/", Env: map[string]string{"GREETING": "oops"}})
	list := b.AwaitUpdates(id, 2)
	runtest.EqualLists(t, "events", inputs(list), []string{"oops", "/"})
	runtest.Equal(t, "stderr", list[0].Stderr, true)
	runtest.Equal(t, "pending inputs", len(b.StateOf(id).Inputs), 0)
	runtest.Equal(t, "events", b.MonitorRecord(id, "m").Events, 0)

	b.StartMonitorOf(id, events.MonitorSpec{ID: "long", Command: "head -c 100000 /dev/zero | tr '\\0' x; echo; echo short; sleep 1000"})
	list = b.AwaitUpdates(id, 4)
	runtest.Equal(t, "length of a long line", len(list[0].Message), events.MaxMonitorLine)
	runtest.Equal(t, "its end", strings.HasSuffix(list[0].Message, "xx [cut: the line is longer than 64 KiB]"), true)
	runtest.Equal(t, "the next line", list[1].Message, "short")
}

func testMonitorNotify(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "echo a; echo b; sleep 1000", Wake: events.WakeNotify})
	runtest.EqualLists(t, "events", inputs(b.AwaitUpdates(id, 2)), []string{"a", "b"})
	runtest.Equal(t, "injected", len(harness.Find[*events.InputInjected](b, id)), 0)
}

func testMonitorUnread(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "seq 200; sleep 1000"})
	list := b.AwaitUpdates(id, 200)
	runtest.Equal(t, "events", len(list), 128)
	runtest.Equal(t, "first sequence", list[0].Sequence, 73)
	runtest.Equal(t, "first", list[0].Message, "73")
	runtest.Equal(t, "last", list[127].Message, "200")
	runtest.Equal(t, "injected", len(harness.Find[*events.InputInjected](b, id)), 1)
	t.Logf("%d commits for 200 lines", len(harness.Find[*events.MonitorReported](b, id)))
}

func testMonitorTimeout(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	f := harness.NewFifo(t)
	ended := processesEnded(f, t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: harness.KeepOpen(f, "trap '' TERM; "), TimeoutMillis: 5000})
	if first := b.AwaitUpdates(id, 1)[0].Message; first != "up" {
		t.Fatalf("the command: got %q, want it up before its time is", first)
	}
	b.Wait("processes", ended)
	m := b.AwaitMonitor(id, "m", events.MonitorFailed)
	runtest.Equal(t, "armed", m.Armed, false)
	runtest.Equal(t, "error", m.LastError, "timed out after 5s")
	runtest.Equal(t, "task", b.AwaitTask(id, "monitor-m", events.TaskFailed).Summary, "timed out after 5s")
}

func testMonitorExit(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "good", Command: "sleep 1000 & exit 0"})
	b.StartMonitorOf(id, events.MonitorSpec{ID: "bad", Command: "echo last; exit 3"})
	b.StartMonitorOf(id, events.MonitorSpec{ID: "nowhere", Command: "true", Cwd: "/no/such/directory"})
	b.AwaitMonitor(id, "good", events.MonitorExited)
	b.AwaitMonitor(id, "bad", events.MonitorFailed)
	b.AwaitMonitor(id, "nowhere", events.MonitorFailed)
	snap, err := b.Worker().RuntimeHost(id, nil, "").MonitorSnapshot(b.Ctx, id)
	runtest.WantError(t, "snapshot", err, nil)
	runtest.Equal(t, "active", snap.Active, 0)
	runtest.Equal(t, "monitors", len(snap.Monitors), 3)
	for i, want := range []struct {
		id     events.MonitorID
		exited bool
		status int64
	}{{"bad", true, 3}, {"good", true, 0}, {"nowhere", false, -1}} {
		m := snap.Monitors[i]
		runtest.Equal(t, "id", m.Spec.ID, want.id)
		runtest.Equal(t, "exited "+string(want.id), m.Exited, want.exited)
		runtest.Equal(t, "status of "+string(want.id), m.Exit, want.status)
		runtest.Equal(t, "armed "+string(want.id), m.Armed, false)
	}
	runtest.Equal(t, "last event", snap.Monitors[0].LastEvent, "last")
	b.AwaitTask(id, "monitor-good", events.TaskCompleted)
	runtest.Equal(t, "task", b.AwaitTask(id, "monitor-bad", events.TaskFailed).Summary, "exit status 3")
	b.StartMonitorOf(id, events.MonitorSpec{ID: "bad", Command: "exit 0"})
	b.AwaitMonitor(id, "bad", events.MonitorExited)
}

func testMonitorStop(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	f := harness.NewFifo(t)
	ended := processesEnded(f, t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: harness.KeepOpen(f, ""), Persistent: true, ArmOn: events.ArmSessionStart})
	b.AwaitUpdates(id, 1)
	runtest.WantError(t, "stop", b.OtherHost().StopMonitor(b.Ctx, id, "m"), nil)
	b.Wait("processes", ended)
	m := b.AwaitMonitor(id, "m", events.MonitorStopped)
	runtest.Equal(t, "armed", m.Armed, false)
	runtest.Equal(t, "wake", m.Wake, "")
	b.AwaitTask(id, "monitor-m", events.TaskCancelled)
	runtest.WantError(t, "register again", b.RegisterMonitor(b.Ctx, id, m.Spec), nil)
	snap, err := b.Worker().RuntimeHost(id, nil, "").MonitorSnapshot(b.Ctx, id)
	runtest.WantError(t, "poll", err, nil)
	runtest.Equal(t, "state after a poll", snap.Monitors[0].State, events.MonitorStopped)
	runtest.Equal(t, "starts", len(harness.Find[*events.MonitorStarted](b, id)), 1)

	runtest.WantError(t, "register", b.RegisterMonitor(b.Ctx, id, forever("idle")), nil)
	runtest.WantError(t, "stop an idle one", b.StopMonitor(b.Ctx, id, "idle"), nil)
	runtest.Equal(t, "idle one", b.MonitorRecord(id, "idle").State, events.MonitorStopped)
}

func testMonitorUnknown(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	runtest.WantError(t, "stop", b.StopMonitor(b.Ctx, id, "m"), api.ErrUnknownMonitor)
}

func testMonitorSessionStart(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	spec := forever("m")
	spec.ArmOn, spec.Env = events.ArmSessionStart, map[string]string{}
	runtest.WantError(t, "register", b.RegisterMonitor(b.Ctx, id, spec), nil)
	runtest.Equal(t, "tasks before the first poll", len(b.StateOf(id).Tasks), 0)
	_, err := b.Worker().RuntimeHost(id, nil, "").MonitorSnapshot(b.Ctx, id)
	runtest.WantError(t, "poll", err, nil)
	b.AwaitMonitor(id, "m", events.MonitorRunning)
	snap, err := b.Worker().RuntimeHost(id, nil, "").MonitorSnapshot(b.Ctx, id)
	runtest.WantError(t, "poll", err, nil)
	runtest.Equal(t, "active", snap.Active, 1)
	before := b.LastSeq(id)
	runtest.WantError(t, "register again", b.RegisterMonitor(b.Ctx, id, spec), nil)
	again, err := b.Worker().RuntimeHost(id, nil, "").MonitorSnapshot(b.Ctx, id)
	runtest.WantError(t, "poll", err, nil)
	runtest.Equal(t, "revision", again.Revision, snap.Revision)
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
}

// testMonitorWake has a line arrive during a model call, and another one while no turn runs.
func testMonitorWake(t *testing.T) {
	f, requested, gate := harness.NewFifo(t), make(chan struct{}), make(chan struct{})
	b := harness.Start(t,
		harness.DoFirst(func() { close(requested); <-gate }, harness.Reply(harness.Text("hi"))),
		harness.Reply(harness.Text("seen")), harness.Reply(harness.Text("seen too")))
	b.StartTasks(bustest.Open(t, b.Server), nil)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the request", requested)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "echo one; read x < '" + string(f) + "'; echo $x; sleep 1000"})
	b.AwaitUpdates(id, 1)
	close(gate)
	b.AwaitTurn(id, "t1")
	b.AwaitUnqueued(id)
	runtest.Equal(t, "injected", len(harness.Find[*events.InputInjected](b, id)), 1)
	runtest.Equal(t, "turns", len(harness.Find[*events.TurnRequested](b, id)), 1)
	runtest.Equal(t, "wake", b.MonitorRecord(id, "m").Wake, "")
	f.Write(t, "two")
	b.AwaitTurn(id, "wake-monitor-m-2")
	b.AwaitUnqueued(id)
	runtest.Equal(t, "turns", len(harness.Find[*events.TurnRequested](b, id)), 2)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{
		"user hello", "assistant hi", `user Monitor event "m": one`, "assistant seen", `user Monitor event "m": two`, "assistant seen too",
	})
	harness.VerifyHistory(t, b.Bus, id)
}
