package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestDeadlineBehindAnAppend: a reader waits for the session's lock while an append waits for a server that does not
// answer. The reader's own deadline ends its wait.
func TestDeadlineBehindAnAppend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	on := b.State()
	b.Server.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	appended := make(chan error, 1)
	go func() {
		_, err := b.Host.Worker().AppendCommit(ctx, &events.Commit{
			ID: "c1", Session: sid, Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
			Events: []events.Event{events.Of("", &events.SessionClosed{})},
		}, on, func(*events.Commit) (*projector.State, error) { return nil, nil })
		appended <- err
	}()
	for range 5 { // the first ones may be before the append
		short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := b.Host.State(short, sid); err == nil {
			t.Error("a state without a server: got no error")
		}
		end()
	}
	select {
	case err := <-appended:
		t.Errorf("the append ended first: %v", err)
	default:
	}
	cancel()
	if err := <-appended; err == nil {
		t.Error("an append without a server: got no error")
	}
}
