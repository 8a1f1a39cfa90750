package integration

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestColdTimerLost deletes all timers while no node runs and the session that
// has one is cold: the next node sets it again.
func TestColdTimerLost(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("in time")))
	id := b.open(api.CreateRequest{})
	at := time.Now().Add(6 * time.Second)
	_, err := b.otherHost().SubmitAt(b.ctx, id, at, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("later")}}})
	must(t, "submit at", err, nil)
	b.goesCold(id)
	js, err := jetstream.New(b.bus.Conn())
	must(t, "jetstream", err, nil)
	must(t, "delete", js.DeleteStream(b.ctx, "lash-timers"), nil)
	b.nodeOn(bustest.Open(t, b.server))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	if early := time.Until(at); early > 0 {
		t.Errorf("ended %v before its time", early)
	}
}
