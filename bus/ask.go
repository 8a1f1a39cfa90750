package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// Answer answers what others ask this worker, until stop. Answers come
// from one goroutine, and go to inboxes only: another question is not looked at.
func (b *Bus) Answer(worker events.WorkerID, answer func(question []byte) []byte) (stop func(), err error) {
	return b.listen(b.names.ask(worker), "", func(m *nats.Msg) {
		if isInbox(m.Reply) {
			_ = m.Respond(answer(m.Data))
		}
	})
}

// Ask puts a question to a worker, wherever it is, until ctx ends. A worker
// that nobody answers for is [ErrNotFound], at once: it is gone.
func (b *Bus) Ask(ctx context.Context, worker events.WorkerID, question []byte) ([]byte, error) {
	if err := events.CheckToken("worker", worker); err != nil {
		return nil, err
	}
	m, err := b.nc.RequestWithContext(ctx, b.names.ask(worker), question)
	if isUnheard(err) {
		return nil, fmt.Errorf("ask worker %s: %w", worker, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("ask worker %s: %w", worker, mapError(err))
	}
	return m.Data, nil
}
