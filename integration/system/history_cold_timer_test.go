package system

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
)

// TestColdTimerLost deletes all timers while no node runs and the session that
// has one is cold: the next node sets it again.
func TestColdTimerLost(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("in time")))
	id := b.Open(api.CreateRequest{})
	at := time.Now().Add(15 * time.Second)
	_, err := b.OtherHost().SubmitAt(b.Ctx, id, at, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("later")}}})
	harness.WantError(t, "submit at", err, nil)
	goesCold(b, id)
	js, err := jetstream.New(b.Bus.Conn())
	harness.WantError(t, "jetstream", err, nil)
	harness.WantError(t, "delete", js.DeleteStream(b.Ctx, "lash-timers"), nil)
	b.StartNodeOn(bustest.Open(t, b.Server))
	harness.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	if remaining := time.Until(at); remaining > 0 {
		t.Errorf("ended %v before its time", remaining)
	}
}
