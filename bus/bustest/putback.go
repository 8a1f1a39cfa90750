package bustest

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// PutBack puts the lost stream of a session back, from a backup that was made before its first commit. The session goes on after its archive,
// whose last sequence PutBack returns.
func PutBack(t testing.TB, b *bus.Bus, session events.SessionID) events.Seq {
	t.Helper()
	_, err := b.Log().Last(t.Context(), session)
	lost, ok := errors.AsType[*bus.CutOffError](err)
	if !ok {
		t.Fatalf("put the stream of %s back: got %v, want a loss", session, err)
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	empty, err := js.Stream(t.Context(), lost.Stream) // a node made it in the place of the lost one
	if err == nil {
		err = js.DeleteStream(t.Context(), lost.Stream)
	}
	if err == nil {
		cfg := empty.CachedInfo().Config
		cfg.Subjects = []string{"lash.s." + string(session) + ".>"}
		_, err = js.CreateStream(t.Context(), cfg)
	}
	runtest.NoError(t, err)
	return lost.Last
}
