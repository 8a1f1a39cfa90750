package bus_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestStreamGoneBeforeItsFirstCommit has the servers lose the stream of a new session before each request of its creation. That is no answer
// about the session: the creation is repeated.
func TestStreamGoneBeforeItsFirstCommit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	js := jetStream(t, bustest.Open(t, server))
	unknown := 0
	for k := range int64(10) {
		id := events.SessionID(fmt.Sprint("s", k))
		var requests atomic.Int64
		b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Pending: func() func() {
			if requests.Add(-1) == 0 {
				_ = js.DeleteStream(t.Context(), "lash-s-"+string(id)) // none is there before it is made
			}
			return func() {}
		}})
		runtest.NoError(t, err)
		requests.Store(k)
		_, err = b.Log().Append(t.Context(), commit(id, 1), 0)
		requests.Store(0)
		if errors.Is(err, events.ErrOutcomeUnknown) {
			unknown++
		} else if err != nil {
			t.Errorf("lost before request %d: got %v, want %v", k, err, events.ErrOutcomeUnknown)
		}
		if seq, err := b.Log().Append(t.Context(), commit(id, 1), 0); err != nil || seq != 1 {
			t.Errorf("lost before request %d, repeated: got %d, %v", k, seq, err)
		}
		b.Close()
	}
	if unknown == 0 {
		t.Error("no creation met the loss")
	}
}
