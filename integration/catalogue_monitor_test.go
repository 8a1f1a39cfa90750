package integration

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

func monitorEntries() []entry {
	return []entry{
		{"M01", "a blank id or command", "started", "an error", testMonitorBlank},
		{"M02", "three lines that are to queue a turn", "taken", "three events, of which the first alone is an input", testMonitorLines},
		{"M03", "a new line after the wake was acknowledged", "taken", "an input again", testMonitorAck},
		{"M04", "a line on standard error", "taken", "an event that is no input", testMonitorStderr},
		{"M05", "a monitor that only notifies", "taken", "never an input", testMonitorNotify},
		{"M06", "200 lines that nobody took", "taken", "the 128 newest, and the gap shows", testMonitorUnread},
		{"M07", "a time limit and a command that ignores TERM", "time passes", "failed, the group killed, disarmed", testMonitorTimeout},
		{"M08", "commands that exit with 0 and 3", "snapshot", "exited; failed with status 3", testMonitorExit},
		{"M09", "a monitor that runs", "stopped", "its processes gone, its task cancelled, and it stays stopped", testMonitorStop},
		{"M10", "an unknown monitor", "stopped", "an error", testMonitorUnknown},
		{"M11", "armed monitors whose node is killed", "another node polls", "running where it is to be restarted; else idle and disarmed", testMonitorRestore},
		{"M12", "a monitor that is to run from the session's start", "first poll", "started; registering it again changes nothing", testMonitorSessionStart},
		{"M13", "a wake while a turn runs", "the turn goes on", "one input, one delivery, no turn besides", testMonitorWake},
	}
}

// forever is a monitor that says nothing.
func forever(id events.MonitorID) events.MonitorSpec {
	return events.MonitorSpec{ID: id, Command: "sleep 1000", Persistent: true}
}

func (b *bundle) start(id events.SessionID, spec events.MonitorSpec) {
	b.t.Helper()
	if err := b.StartMonitor(b.ctx, id, spec); err != nil {
		b.t.Fatal(err)
	}
}

// monitor is how a monitor stands.
func (b *bundle) monitor(id events.SessionID, name events.MonitorID) projector.Monitor {
	b.t.Helper()
	m, ok := b.state(id).Monitor(name)
	if !ok {
		b.t.Fatalf("monitor %s: got none", name)
	}
	return *m
}

func (b *bundle) monitorIs(id events.SessionID, name events.MonitorID, state events.MonitorState) projector.Monitor {
	b.t.Helper()
	s := b.await(id, "monitor "+string(name)+" "+string(state), func(s *projector.State) bool {
		m, ok := s.Monitor(name)
		return ok && m.State == state && (state != events.MonitorIdle || !m.Armed)
	})
	m, _ := s.Monitor(name)
	return *m
}

// updates waits for update n and takes all.
func (b *bundle) updates(id events.SessionID, n int64) []api.MonitorEvent {
	b.t.Helper()
	b.await(id, "updates", func(s *projector.State) bool { return s.Feed.Sequence >= n })
	u, err := b.TakeMonitorUpdates(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return u.Events
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

// fifo is a pipe with a name. Reading it to its end waits until nobody has it open for writing.
type fifo string

func newFifo(t *testing.T) fifo {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return fifo(path)
}

// gone is closed when every process is gone that had the pipe open for writing, the first of which comes yet.
func (f fifo) gone(t *testing.T) <-chan struct{} {
	t.Helper()
	_, done := f.held(t)
	return done
}

// held is gone, with a channel before it that is closed when the first such process is there.
func (f fifo) held(t *testing.T) (up, gone <-chan struct{}) {
	t.Helper()
	here, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r, err := os.Open(string(f))
		close(here)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close() //nolint:errcheck // it was only read
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
	}()
	return here, done
}

// say lets a command go on that reads the pipe, now or later: the pipe stays open, so that no line is lost between two readers.
func (f fifo) say(t *testing.T, line string) {
	t.Helper()
	w, err := os.OpenFile(string(f), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	if _, err := w.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) wait(what string, done <-chan struct{}) {
	b.t.Helper()
	select {
	case <-done:
	case <-b.ctx.Done():
		b.t.Fatalf("%s: got nothing, want it to end", what)
	}
}

// keeps is a command with a child, both of which have the pipe open.
func keeps(f fifo, before string) string {
	return before + "exec 3>'" + string(f) + "'; sleep 1000 & echo up; while :; do sleep 1000; done"
}

func left(name events.TaskID) func(*projector.State) bool {
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
	b, id, _ := setupTasks(t)
	before := b.last(id)
	for name, spec := range map[string]events.MonitorSpec{
		"id": {Command: "true"}, "command": {ID: "m", Command: " \t"}, "dots": {ID: "a.b", Command: "true"}, "colon": {ID: "plugin:m", Command: "true"},
	} {
		err := b.StartMonitor(b.ctx, id, spec)
		if !errors.Is(err, events.ErrInvalid) && !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	equal(t, "sequence", b.last(id), before)
}

func testMonitorLines(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: "printf ' a \\n\\nb\\nc\\n'; sleep 1000"})
	equalLists(t, "events", inputs(b.updates(id, 3)), []string{`a > Monitor event "m": a`, "b", "c"})
	s := b.state(id)
	equal(t, "pending inputs", len(s.Inputs), 1)
	equal(t, "input", s.Inputs[0].ID, "monitor-m-1")
	equal(t, "events", b.monitor(id, "m").Events, 3)
	equal(t, "events after taking", len(b.updates(id, 3)), 0)
	reports := find[*events.MonitorReported](b, id)
	t.Logf("%d commits of lines", len(reports))
}

func testMonitorAck(t *testing.T) {
	b, id, _ := setupTasks(t)
	f := newFifo(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: "echo one; read x < '" + string(f) + "'; echo $x; read x < '" + string(f) + "'; echo $x; sleep 1000"})
	equalLists(t, "first", inputs(b.updates(id, 1)), []string{`one > Monitor event "m": one`})
	f.say(t, "two")
	equalLists(t, "while it is pending", inputs(b.updates(id, 2)), []string{"two"})
	must(t, "ack", b.AckMonitorWakes(b.ctx, id, []events.MonitorID{"m"}), nil)
	f.say(t, "three")
	equalLists(t, "after the ack", inputs(b.updates(id, 3)), []string{`three > Monitor event "m": three`})
}

func testMonitorStderr(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: `echo "$GREETING" >&2; pwd >&2; sleep 1000`, Cwd: "/", Env: map[string]string{"GREETING": "oops"}})
	list := b.updates(id, 2)
	equalLists(t, "events", inputs(list), []string{"oops", "/"})
	equal(t, "stderr", list[0].Stderr, true)
	equal(t, "pending inputs", len(b.state(id).Inputs), 0)
	equal(t, "events", b.monitor(id, "m").Events, 0)

	b.start(id, events.MonitorSpec{ID: "long", Command: "head -c 100000 /dev/zero | tr '\\0' x; echo; echo short; sleep 1000"})
	list = b.updates(id, 4)
	equal(t, "length of a long line", len(list[0].Message), events.MaxMonitorLine)
	equal(t, "its end", strings.HasSuffix(list[0].Message, "xx [cut: the line is longer than 64 KiB]"), true)
	equal(t, "the next line", list[1].Message, "short")
}

func testMonitorNotify(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: "echo a; echo b; sleep 1000", Wake: events.WakeNotify})
	equalLists(t, "events", inputs(b.updates(id, 2)), []string{"a", "b"})
	equal(t, "injected", len(find[*events.InputInjected](b, id)), 0)
}

func testMonitorUnread(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: "seq 200; sleep 1000"})
	list := b.updates(id, 200)
	equal(t, "events", len(list), 128)
	equal(t, "first sequence", list[0].Sequence, 73)
	equal(t, "first", list[0].Message, "73")
	equal(t, "last", list[127].Message, "200")
	equal(t, "injected", len(find[*events.InputInjected](b, id)), 1)
	t.Logf("%d commits for 200 lines", len(find[*events.MonitorReported](b, id)))
}

func testMonitorTimeout(t *testing.T) {
	b, id, _ := setupTasks(t)
	f := newFifo(t)
	gone := f.gone(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: keeps(f, "trap '' TERM; "), TimeoutMillis: 5000})
	if first := b.updates(id, 1)[0].Message; first != "up" {
		t.Fatalf("the command: got %q, want it up before its time is", first)
	}
	b.wait("processes", gone)
	m := b.monitorIs(id, "m", events.MonitorFailed)
	equal(t, "armed", m.Armed, false)
	equal(t, "error", m.LastError, "timed out after 5s")
	equal(t, "task", b.taskIs(id, "monitor-m", events.TaskFailed).Summary, "timed out after 5s")
}

func testMonitorExit(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.start(id, events.MonitorSpec{ID: "good", Command: "sleep 1000 & exit 0"})
	b.start(id, events.MonitorSpec{ID: "bad", Command: "echo last; exit 3"})
	b.start(id, events.MonitorSpec{ID: "nowhere", Command: "true", Cwd: "/no/such/directory"})
	b.monitorIs(id, "good", events.MonitorExited)
	b.monitorIs(id, "bad", events.MonitorFailed)
	b.monitorIs(id, "nowhere", events.MonitorFailed)
	snap, err := b.Services(id, nil, "").MonitorSnapshot(b.ctx, id)
	must(t, "snapshot", err, nil)
	equal(t, "active", snap.Active, 0)
	equal(t, "monitors", len(snap.Monitors), 3)
	for i, want := range []struct {
		id     events.MonitorID
		exited bool
		status int64
	}{{"bad", true, 3}, {"good", true, 0}, {"nowhere", false, -1}} {
		m := snap.Monitors[i]
		equal(t, "id", m.Spec.ID, want.id)
		equal(t, "exited "+string(want.id), m.Exited, want.exited)
		equal(t, "status of "+string(want.id), m.Exit, want.status)
		equal(t, "armed "+string(want.id), m.Armed, false)
	}
	equal(t, "last event", snap.Monitors[0].LastEvent, "last")
	b.taskIs(id, "monitor-good", events.TaskCompleted)
	equal(t, "task", b.taskIs(id, "monitor-bad", events.TaskFailed).Summary, "exit status 3")
	b.start(id, events.MonitorSpec{ID: "bad", Command: "exit 0"})
	b.monitorIs(id, "bad", events.MonitorExited)
}

func testMonitorStop(t *testing.T) {
	b, id, _ := setupTasks(t)
	f := newFifo(t)
	gone := f.gone(t)
	b.start(id, events.MonitorSpec{ID: "m", Command: keeps(f, ""), Persistent: true, ArmOn: events.ArmSessionStart})
	b.updates(id, 1)
	must(t, "stop", b.otherHost().StopMonitor(b.ctx, id, "m"), nil)
	b.wait("processes", gone)
	m := b.monitorIs(id, "m", events.MonitorStopped)
	equal(t, "armed", m.Armed, false)
	equal(t, "wake", m.Wake, "")
	b.taskIs(id, "monitor-m", events.TaskCancelled)
	must(t, "register again", b.RegisterMonitor(b.ctx, id, m.Spec), nil)
	snap, err := b.Services(id, nil, "").MonitorSnapshot(b.ctx, id)
	must(t, "poll", err, nil)
	equal(t, "state after a poll", snap.Monitors[0].State, events.MonitorStopped)
	equal(t, "starts", len(find[*events.MonitorStarted](b, id)), 1)

	must(t, "register", b.RegisterMonitor(b.ctx, id, forever("idle")), nil)
	must(t, "stop an idle one", b.StopMonitor(b.ctx, id, "idle"), nil)
	equal(t, "idle one", b.monitor(id, "idle").State, events.MonitorStopped)
}

func testMonitorUnknown(t *testing.T) {
	b, id, _ := setupTasks(t)
	must(t, "stop", b.StopMonitor(b.ctx, id, "m"), task.ErrUnknownMonitor)
}

func testMonitorSessionStart(t *testing.T) {
	b, id, _ := setupTasks(t)
	spec := forever("m")
	spec.ArmOn, spec.Env = events.ArmSessionStart, map[string]string{}
	must(t, "register", b.RegisterMonitor(b.ctx, id, spec), nil)
	equal(t, "tasks before the first poll", len(b.state(id).Tasks), 0)
	_, err := b.Services(id, nil, "").MonitorSnapshot(b.ctx, id)
	must(t, "poll", err, nil)
	b.monitorIs(id, "m", events.MonitorRunning)
	snap, err := b.Services(id, nil, "").MonitorSnapshot(b.ctx, id)
	must(t, "poll", err, nil)
	equal(t, "active", snap.Active, 1)
	before := b.last(id)
	must(t, "register again", b.RegisterMonitor(b.ctx, id, spec), nil)
	again, err := b.Services(id, nil, "").MonitorSnapshot(b.ctx, id)
	must(t, "poll", err, nil)
	equal(t, "revision", again.Revision, snap.Revision)
	equal(t, "sequence", b.last(id), before)
}

// testMonitorWake has a line come while the model is asked, and another while nothing runs.
func testMonitorWake(t *testing.T) {
	f, asked, gate := newFifo(t), make(chan struct{}), make(chan struct{})
	b := setup(t,
		first(func() { close(asked); <-gate }, reply(text("hi"))),
		reply(text("seen")), reply(text("seen too")))
	b.tasks(bustest.Open(t, b.server), nil)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "asked", asked)
	b.start(id, events.MonitorSpec{ID: "m", Command: "echo one; read x < '" + string(f) + "'; echo $x; sleep 1000"})
	b.updates(id, 1)
	close(gate)
	b.ended(id, "t1")
	b.unqueued(id)
	equal(t, "injected", len(find[*events.InputInjected](b, id)), 1)
	equal(t, "turns", len(find[*events.TurnRequested](b, id)), 1)
	equal(t, "wake", b.monitor(id, "m").Wake, "")
	f.say(t, "two")
	b.ended(id, "wake-monitor-m-2")
	b.unqueued(id)
	equal(t, "turns", len(find[*events.TurnRequested](b, id)), 2)
	equalLists(t, "messages", b.messages(id), []string{
		"user hello", "assistant hi", `user Monitor event "m": one`, "assistant seen", `user Monitor event "m": two`, "assistant seen too",
	})
	verified(t, b.bus, id)
}
