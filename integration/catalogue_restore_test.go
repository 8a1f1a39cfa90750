package integration

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers"
)

// taskServer is the server of the process that is killed.
const taskServer = "LASH_TASK_SERVER"

// TestTaskProcess is what testMonitorRestore runs in another process: a node that runs monitors until it is killed.
func TestTaskProcess(t *testing.T) {
	url := os.Getenv(taskServer)
	if url == "" {
		t.Skip("runs in a process of its own")
	}
	on, err := bus.Open(t.Context(), bus.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	s, err := workers.NewNode(workers.Config{Bus: on, Roles: []workers.Role{workers.RoleTask}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done() // it never ends by itself
}

// testMonitorRestore kills a node with kill -9, and plays one that died
// between the commit of a line and the wake that the line asks for.
func testMonitorRestore(t *testing.T) {
	b := setupIdle(t, reply(text("seen")))
	server := bustest.Server(t, busembed.Config{Listen: true})
	b.bus = bustest.Open(t, server)
	b.Host, b.server = b.newHost(b.bus), server
	id := b.open(api.CreateRequest{})
	child := exec.CommandContext(b.ctx, os.Args[0], "-test.run=^TestTaskProcess$")
	child.Env = append(os.Environ(), taskServer+"="+server.URL())
	must(t, "start the process", child.Start(), nil)
	again, once := newFifo(t), newFifo(t)
	goneAgain, goneOnce := again.gone(t), once.gone(t)
	b.start(id, events.MonitorSpec{ID: "again", Command: keeps(again, ""), Persistent: true, RestartOnRestore: true, Wake: events.WakeNotify})
	b.start(id, events.MonitorSpec{ID: "once", Command: keeps(once, ""), Persistent: true, Wake: events.WakeNotify})
	b.updates(id, 2)
	first := b.monitor(id, "again").Worker
	must(t, "kill", child.Process.Kill(), nil)
	_ = child.Wait()
	b.wait("processes of the killed node", goneAgain)
	b.wait("processes of the killed node", goneOnce)
	equal(t, "state before anybody looked", b.monitor(id, "again").State, events.MonitorRunning)

	goneAgain = again.gone(t)
	second, stop := b.tasks(bustest.Open(t, server), nil)
	m := b.monitorIs(id, "once", events.MonitorIdle)
	equal(t, "armed", m.Armed, false)
	why := "abandoned: worker " + string(first) + " is gone"
	equal(t, "evidence", m.LastError, why)
	equal(t, "task", b.taskIs(id, "monitor-once", events.TaskFailed).Summary, why)
	list := b.updates(id, 4)
	equal(t, "updates", len(list), 2)
	m = b.monitorIs(id, "again", events.MonitorRunning)
	equal(t, "worker", m.Worker, second.ID())
	rec := b.taskIs(id, "monitor-again", events.TaskRunning)
	equal(t, "attempts", rec.Attempt, 2)
	stop() // kills the group, and hands the task back
	b.wait("processes of the stopped node", goneAgain)

	b.start(id, events.MonitorSpec{ID: "line", Command: "sleep 1000", Persistent: true})
	line, err := b.Task(b.ctx, id, "monitor-line")
	must(t, "task", err, nil)
	line, err = b.ClaimTask(b.ctx, id, task.ClaimOf(&line), "ghost")
	must(t, "claim", err, nil)
	must(t, "report", b.ReportMonitor(b.ctx, id, task.ClaimOf(&line), []task.Line{{Text: "fire"}}), nil)
	wake := b.monitor(id, "line").Wake
	b.work(b.bus)
	b.tasks(bustest.Open(t, server), nil)
	b.ended(id, "wake-"+events.TurnID(wake))
	equalLists(t, "messages", b.messages(id), []string{`user Monitor event "line": fire`, "assistant seen"})
	equal(t, "monitor", b.monitorIs(id, "line", events.MonitorIdle).LastError, "abandoned: worker ghost is gone")
	verified(t, b.bus, id)
}

// wakes lists what has a wake in the queue.
func (b *bundle) wakes() map[bus.WakeKey]bool {
	b.t.Helper()
	list, err := b.bus.Wakes(b.ctx)
	must(b.t, "wakes", err, nil)
	return list
}

// woken reports whether a session has a wake in the queue.
func (b *bundle) woken(id events.SessionID) bool {
	b.t.Helper()
	return b.wakes()[bus.WakeKey{Class: bus.ClassTurn, Session: id}]
}

// unqueued waits until a session owes nothing and has no wake: its turns have ended, or are parked.
func (b *bundle) unqueued(id events.SessionID) {
	b.t.Helper()
	b.until("session "+string(id)+" rests", func() bool {
		return !turn.Owing(b.state(id), events.MillisOf(time.Now())) && !b.woken(id)
	})
}
