package external

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestInstanceWithoutOutcome has an instance answer each message of a call with one sign of life, and never with an
// outcome. The node sends the call again at the pace of its silence, and the tool's time ends it.
func TestInstanceWithoutOutcome(t *testing.T) {
	t.Parallel()
	s := start(t, calling("hostile", `{}`)...)
	s.config.CancelGrace = 100 * time.Millisecond
	s.node()
	r := registration("1", "hostile")
	r.Manifest.Tools[0].TimeoutMS = 4000
	var calls atomic.Int64
	s.fakeOf(r, func(verb string, _ *wire.Call, send func(any)) {
		if verb == "call" {
			calls.Add(1)
			send(&wire.Progress{})
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "the time of the tool is over")
	most := 4000/(wire.SignEvery*3/2).Milliseconds() + 1
	if got := calls.Load(); got < 2 || got > most {
		t.Errorf("messages of the call: got %d, want 2 to %d", got, most)
	}
}

// TestSessionEndsBeforeItsCall has an instance of scope session end the session just before a call that must not run
// twice arrives. The refused call has not run: the session starts again, and the instance gets the call.
func TestSessionEndsBeforeItsCall(t *testing.T) {
	t.Parallel()
	s := start(t, calling("hostile", `{}`)...)
	s.node()
	r := registration("1", "hostile")
	r.Manifest.Scope = wire.ScopeSession
	epochs := make(chan int64, 8)
	s.fakeOf(r, func(verb string, in *wire.Call, send func(any)) {
		switch {
		case verb == "session_start":
			send(&wire.Placed{})
		case verb == "call" && in.Epoch < 2:
			epochs <- in.Epoch
			send(&wire.Progress{Error: &wire.Error{Code: wire.CodeNotOwner, Message: "it has ended"}})
		case verb == "call":
			epochs <- in.Epoch
			send(&wire.Progress{Outcome: &wire.Outcome{Text: "here"}})
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "here")
	runtest.DeepEqual(t, "epochs", []int64{<-epochs, <-epochs}, []int64{1, 2})
}
