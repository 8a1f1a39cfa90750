package system

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
)

// TestClaimWithMonitorsDies has a node die right after the commit that claims a turn and registers the monitors
// which plugins declare, before it wakes their task. The next node runs both, and registers no monitor twice.
func TestClaimWithMonitorsDies(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	spec := events.MonitorSpec{ID: "m", Command: "echo declared; sleep 1000", Persistent: true, ArmOn: events.ArmSessionStart, Wake: events.WakeNotify}
	unique := spec
	unique.ID = "wrapped-m"
	declared, err := task.Declare(b.StateOf(id), []events.MonitorSpec{unique})
	runtest.WantError(t, "declare", err, nil)
	claim := append([]events.Event{events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "ghost"})}, declared...)
	_, err = b.Bus.Log().Append(b.Ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "ghost"}, Events: claim,
	}, b.LastSeq(id))
	runtest.WantError(t, "claim", err, nil)
	for key := range b.Wakes() {
		runtest.Equal(t, "task that has a wake", key.Task, "")
	}
	b.StartNodeOn(bustest.Open(t, b.Server), harness.PluginOf("wrapped", func(r *plugin.Registrar) { r.Monitor(spec) }))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	b.AwaitMonitor(id, "wrapped-m", events.MonitorRunning)
	b.AwaitState(id, "its line", func(s *projector.State) bool { return s.Feed.Sequence >= 1 })
	runtest.Equal(t, "registered", len(harness.Find[*events.TaskRegistered](b, id)), 1)
	runtest.Equal(t, "started", len(harness.Find[*events.TaskStarted](b, id)), 1)
	harness.VerifyHistory(t, b.Bus, id)
}
