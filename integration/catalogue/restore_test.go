package catalogue

import (
	"os"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

// taskServer is the variable with the server's address of the process that is killed.
const taskServer = "LASH_TASK_SERVER"

// TestChildTask runs in another process, which testMonitorRestore starts: a node that runs monitors until it is
// killed.
func TestChildTask(t *testing.T) {
	url := os.Getenv(taskServer)
	on, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: url}))
	runtest.NoError(t, err)
	s, err := workers.NewNode(workers.Config{Bus: on, Roles: []workers.Role{workers.RoleTask}})
	runtest.NoError(t, err)
	runtest.NoError(t, s.Start(t.Context()))
	<-t.Context().Done() // it never ends by itself
}

// testMonitorRestore kills a node with kill -9. It also has a node that died between the commit of a line and the
// wake for that line.
func testMonitorRestore(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("seen")))
	server := bustest.Server(t, busembed.Config{Listen: true})
	b.Bus = bustest.Open(t, server)
	b.Host, b.Server = b.NewHost(b.Bus), server
	id := b.Open(api.CreateRequest{})
	child := runtest.Child(b.Ctx, "TestChildTask", taskServer+"="+server.URL())
	runtest.WantError(t, "start the process", child.Start(), nil)
	again, once := harness.NewFifo(t), harness.NewFifo(t)
	closedAgain, closedOnce := processesEnded(again, t), processesEnded(once, t)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "again", Command: harness.KeepOpen(again, ""), Persistent: true, RestartOnRestore: true, Wake: events.WakeNotify})
	b.StartMonitorOf(id, events.MonitorSpec{ID: "once", Command: harness.KeepOpen(once, ""), Persistent: true, Wake: events.WakeNotify})
	b.AwaitUpdates(id, 2)
	first := b.MonitorRecord(id, "again").Worker
	runtest.WantError(t, "kill", child.Process.Kill(), nil)
	_ = child.Wait()
	b.Wait("processes of the killed node", closedAgain)
	b.Wait("processes of the killed node", closedOnce)
	runtest.Equal(t, "state before anybody looked", b.MonitorRecord(id, "again").State, events.MonitorRunning)

	closedAgain = processesEnded(again, t)
	second, stop := b.StartTasks(bustest.Open(t, server), nil)
	m := b.AwaitMonitor(id, "once", events.MonitorIdle)
	runtest.Equal(t, "armed", m.Armed, false)
	why := "abandoned: worker " + string(first) + " is gone"
	runtest.Equal(t, "evidence", m.LastError, why)
	runtest.Equal(t, "task", b.AwaitTask(id, "monitor-once", events.TaskFailed).Summary, why)
	list := b.AwaitUpdates(id, 4)
	runtest.Equal(t, "updates", len(list), 2)
	m = b.AwaitMonitor(id, "again", events.MonitorRunning)
	runtest.Equal(t, "worker", m.Worker, second.ID())
	rec := b.AwaitTask(id, "monitor-again", events.TaskRunning)
	runtest.Equal(t, "attempts", rec.Attempt, 2)
	stop() // kills the group, and hands the task back
	b.Wait("processes of the stopped node", closedAgain)

	b.StartMonitorOf(id, events.MonitorSpec{ID: "line", Command: "sleep 1000", Persistent: true})
	line, err := b.Task(b.Ctx, id, "monitor-line")
	runtest.WantError(t, "task", err, nil)
	line, err = b.Worker().ClaimTask(b.Ctx, id, task.ClaimOf(&line), "ghost")
	runtest.WantError(t, "claim", err, nil)
	runtest.WantError(t, "report", b.Worker().ReportMonitor(b.Ctx, id, task.ClaimOf(&line), []task.Line{{Text: "fire"}}), nil)
	wake := b.MonitorRecord(id, "line").Wake
	b.StartWorker(b.Bus)
	b.StartTasks(bustest.Open(t, server), nil)
	b.AwaitTurn(id, "wake-"+events.TurnID(wake))
	runtest.EqualLists(t, "messages", b.Messages(id), []string{`user Monitor event "line": fire`, "assistant seen"})
	runtest.Equal(t, "monitor", b.AwaitMonitor(id, "line", events.MonitorIdle).LastError, "abandoned: worker ghost is gone")
	harness.VerifyHistory(t, b.Bus, id)
}
