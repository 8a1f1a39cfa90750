package system

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestMonitorFence disconnects a node that otherwise works. Before another node restarts its monitor, the first
// one has killed the monitor's processes: at most one runs in the whole fleet.
func TestMonitorFence(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	secondBus := bustest.Open(t, b.Server)
	first, _ := b.StartTasks(secondBus, nil)
	// The monitor ignores TERM and prints the id of its process.
	b.StartMonitorOf(id, events.MonitorSpec{
		ID: "m", Command: "trap '' TERM; echo $$; while :; do sleep 1000; done", Persistent: true, RestartOnRestore: true, Wake: events.WakeNotify,
	})
	b.StartMonitorOf(id, events.MonitorSpec{ID: "once", Command: "echo $$; exec sleep 1000", Persistent: true, Wake: events.WakeNotify})
	old := make(map[events.MonitorID]int)
	for _, e := range b.AwaitUpdates(id, 2) {
		old[e.Monitor] = processID(t, e)
	}
	second, _ := b.StartTasks(bustest.Open(t, b.Server), nil)
	secondBus.Close()
	list := b.AwaitUpdates(id, 3) // of the second process, once it runs, or of the monitor that is given up
	for processOf(list, "m") == nil {
		list = append(list, b.AwaitUpdates(id, list[len(list)-1].Sequence+1)...)
	}
	if err := syscall.Kill(old["m"], 0); err != syscall.ESRCH {
		t.Errorf("process %d of the node that was cut off: got %v, want it gone before the second one runs", old["m"], err)
	}
	again := processID(t, *processOf(list, "m"))
	runtest.Equal(t, "another process", again != old["m"], true)
	runtest.Equal(t, "worker", b.AwaitMonitor(id, "m", events.MonitorRunning).Worker, second.ID())
	runtest.Equal(t, "attempts", b.AwaitTask(id, "monitor-m", events.TaskRunning).Attempt, 2)
	why := "abandoned: worker " + string(first.ID()) + " is gone"
	runtest.Equal(t, "the one that is not to run again", b.AwaitTask(id, "monitor-once", events.TaskFailed).Summary, why)
	if err := syscall.Kill(old["once"], 0); err != syscall.ESRCH {
		t.Errorf("process %d of the other monitor: got %v, want it gone", old["once"], err)
	}
	harness.VerifyHistory(t, b.Bus, id)
}

// processOf finds the line in which a monitor prints the id of its process.
func processOf(list []api.MonitorEvent, name events.MonitorID) *api.MonitorEvent {
	for i := range list {
		if _, err := strconv.Atoi(strings.TrimSpace(list[i].Message)); err == nil && list[i].Monitor == name {
			return &list[i]
		}
	}
	return nil
}

func processID(t *testing.T, e api.MonitorEvent) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(e.Message))
	runtest.WantError(t, "process id", err, nil)
	return n
}
