package system

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// limitedHost is a host with a limit of queued turns in a session.
func limitedHost(f *harness.Fleet, queued int) *session.Host {
	f.T.Helper()
	h, err := session.New(session.Config{Bus: bustest.Open(f.T, f.Server), MaxQueued: queued, Plugins: session.NoPlugins()})
	runtest.WantError(f.T, "host", err, nil)
	return h
}

// isFull checks that a refusal names the limit.
func isFull(t *testing.T, what string, err error, of string, limit int) {
	t.Helper()
	full, ok := errors.AsType[*api.LimitError](err)
	if !ok || full.What != of || full.Limit != limit {
		t.Errorf("%s: got %v, want a refusal of more %s than %d", what, err, of, limit)
	}
}

// TestFleetQueueLimitCost counts the cost of submits: one append each, and two hints without a wait.
func TestFleetQueueLimitCost(t *testing.T) {
	t.Parallel()
	const turns = 512
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	on := bustest.Open(t, f.Server)
	h, err := session.New(session.Config{Bus: on, Plugins: session.NoPlugins()})
	runtest.WantError(t, "host", err, nil)
	runtest.WantError(t, "first", harness.SubmitTo(f.System, h, id, harness.TurnRequest("first", "go")), nil)
	before := on.Conn().Stats().OutMsgs
	for i := range turns {
		runtest.WantError(t, "submit", harness.SubmitTo(f.System, h, id, harness.TurnRequest(events.TurnID(fmt.Sprintf("t%d", i)), "go")), nil)
	}
	if sent := on.Conn().Stats().OutMsgs - before; sent > 3*turns {
		t.Errorf("%d submits: got %d messages, want at most %d", turns, sent, 3*turns)
	}
	runtest.Equal(t, "commits", f.LastSeq(id), turns+2)
}
