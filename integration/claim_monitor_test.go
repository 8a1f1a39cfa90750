package integration

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
)

// TestClaimWithMonitorsDies has a node die right after the commit that claims a
// turn and registers the monitors which plugins declare, before it wakes their task. The next node
// runs both, and registers nothing twice.
func TestClaimWithMonitorsDies(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	spec := events.MonitorSpec{ID: "m", Command: "echo declared; sleep 1000", Persistent: true, ArmOn: events.ArmSessionStart, Wake: events.WakeNotify}
	unique := spec
	unique.ID = "wrapped-m"
	declared, err := task.Declare(b.state(id), []events.MonitorSpec{unique})
	must(t, "declare", err, nil)
	claim := append([]events.Event{events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "ghost"})}, declared...)
	_, err = b.bus.Log().Append(b.ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "ghost"}, Events: claim,
	}, b.last(id))
	must(t, "claim", err, nil)
	for key := range b.wakes() {
		equal(t, "task that has a wake", key.Task, "")
	}
	b.nodeOn(bustest.Open(t, b.server), declares("wrapped", func(r *plugin.Registrar) { r.Monitor(spec) }))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	b.monitorIs(id, "wrapped-m", events.MonitorRunning)
	b.await(id, "its line", func(s *projector.State) bool { return s.Feed.Sequence >= 1 })
	equal(t, "registered", len(find[*events.TaskRegistered](b, id)), 1)
	equal(t, "started", len(find[*events.TaskStarted](b, id)), 1)
	verified(t, b.bus, id)
}
