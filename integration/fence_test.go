package integration

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestMonitorFence cuts a node off that goes on otherwise: before another one
// begins its monitor anew it has killed its own processes of it, so that at
// most one runs in the whole fleet.
func TestMonitorFence(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	away := bustest.Open(t, b.server)
	first, _ := b.tasks(away, nil)
	// It ignores TERM and says its process's id.
	b.start(id, events.MonitorSpec{
		ID: "m", Command: "trap '' TERM; echo $$; while :; do sleep 1000; done", Persistent: true, RestartOnRestore: true, Wake: events.WakeNotify,
	})
	b.start(id, events.MonitorSpec{ID: "once", Command: "echo $$; exec sleep 1000", Persistent: true, Wake: events.WakeNotify})
	old := make(map[events.MonitorID]int)
	for _, e := range b.updates(id, 2) {
		old[e.Monitor] = processID(t, e)
	}
	second, _ := b.tasks(bustest.Open(t, b.server), nil)
	away.Close()
	list := b.updates(id, 3) // of the second process, once it runs, or of the monitor that is given up
	for processOf(list, "m") == nil {
		list = append(list, b.updates(id, list[len(list)-1].Sequence+1)...)
	}
	if err := syscall.Kill(old["m"], 0); err != syscall.ESRCH {
		t.Errorf("process %d of the node that was cut off: got %v, want it gone before the second one runs", old["m"], err)
	}
	again := processID(t, *processOf(list, "m"))
	equal(t, "another process", again != old["m"], true)
	equal(t, "worker", b.monitorIs(id, "m", events.MonitorRunning).Worker, second.ID())
	equal(t, "attempts", b.taskIs(id, "monitor-m", events.TaskRunning).Attempt, 2)
	why := "abandoned: worker " + string(first.ID()) + " is gone"
	equal(t, "the one that is not to run again", b.taskIs(id, "monitor-once", events.TaskFailed).Summary, why)
	if err := syscall.Kill(old["once"], 0); err != syscall.ESRCH {
		t.Errorf("process %d of the other monitor: got %v, want it gone", old["once"], err)
	}
	verified(t, b.bus, id)
}

// processOf finds a line in which a monitor says its process's id.
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
	must(t, "process id", err, nil)
	return n
}
