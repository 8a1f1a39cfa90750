package watch

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/reader"
	"github.com/lash-go/lash/session/internal/states"
)

// Watcher observes sessions and waits for turns. It is safe for concurrent use.
type Watcher struct {
	b      *bus.Bus
	log    bus.Log
	states *states.Cache
	reader *reader.Reader
}

// New makes a watcher that shares the reader's cache of states.
func New(b *bus.Bus, reader *reader.Reader) *Watcher {
	return &Watcher{b: b, log: b.Log(), states: reader.Cache(), reader: reader}
}

// Submitter accepts turns.
type Submitter interface {
	// SubmitTurn accepts a turn. The answer has its sequence in the history.
	SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitResponse, error)
}
