package harness

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// JetStream is the JetStream interface of the system's connection.
func (b *System) JetStream() jetstream.JetStream {
	b.T.Helper()
	js, err := jetstream.New(b.Bus.Conn())
	runtest.WantError(b.T, "jetstream", err, nil)
	return js
}

// LoseCommits archives a session, appends to it, and loses its stream. It returns the sequences of the lost commits.
func (b *System) LoseCommits(id events.SessionID) (from, to events.Seq) {
	b.T.Helper()
	from = b.LastSeq(id) + 1
	_, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, id)
	runtest.WantError(b.T, "archive", err, nil)
	_, err = b.Inject(b.Ctx, id, api.InjectRequest{ID: "lost", Parts: []events.Part{Text("lost")}})
	runtest.WantError(b.T, "inject", err, nil)
	to = b.LastSeq(id)
	runtest.WantError(b.T, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
	b.LoseStream(id)
	return from, to
}

// LoseStream deletes the stream of a session.
func (b *System) LoseStream(id events.SessionID) {
	b.T.Helper()
	js := b.JetStream()
	for name := range js.StreamNames(b.Ctx, jetstream.WithStreamListSubject("lash.s."+string(id)+".>")).Name() {
		runtest.WantError(b.T, "delete", js.DeleteStream(b.Ctx, name), nil)
	}
}

// Blobs lists the bodies in the object store.
func (b *System) Blobs() []*jetstream.ObjectInfo {
	b.T.Helper()
	store, err := b.JetStream().ObjectStore(b.Ctx, "lash-blobs")
	runtest.WantError(b.T, "object store", err, nil)
	list, err := store.List(b.Ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	runtest.WantError(b.T, "blobs", err, nil)
	return list
}

// EncodeState encodes a state as a snapshot does.
func EncodeState(t *testing.T, s *projector.State) []byte {
	t.Helper()
	head, _, err := s.Clone().Snapshot()
	runtest.NoError(t, err)
	return head
}

// AwaitCold waits until the directory has a session as cold at its end.
func (b *System) AwaitCold(id events.SessionID) {
	b.T.Helper()
	b.AwaitPolling("session "+string(id)+" is cold at its end", func() bool {
		row := b.DirectoryRow(b.Ctx, id)
		return row.Place == follow.PlaceCold && row.Seq == b.LastSeq(id)
	})
}

// DirectoryRow is the row of a session in the directory.
func (b *System) DirectoryRow(ctx context.Context, id events.SessionID) (row follow.Directory) {
	stored, err := b.Bus.Directory().Get(ctx, id)
	if err == nil && stored.Revision != 0 {
		err = json.Unmarshal(stored.Value, &row)
	}
	if err != nil && ctx.Err() == nil {
		b.T.Error(err)
	}
	return row
}
