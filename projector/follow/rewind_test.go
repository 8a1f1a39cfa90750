package follow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// TestHistoryReplaced replaces histories of all lengths by histories of all lengths, while a state of the first one is in
// memory and its rows are stored. A sync, an open and the rows have the second one afterwards.
func TestHistoryReplaced(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	for _, before := range []int{2, 20, 40, 70} {
		for _, after := range []int{1, 2, 39, 40, 41, 110} {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", before, after))
			write(t, b, id, before, "old")
			mustProject(t, b, id)
			old := refold(t, b, id)
			_, err = follow.Save(t.Context(), b, old)
			runtest.NoError(t, err)
			replaced(t, b, js, id, func() { write(t, b, id, after, "new") })
			want := refold(t, b, id)
			for name, sync := range map[string]func() (*projector.State, error){
				"sync": func() (*projector.State, error) {
					s := old.Clone()
					return s, follow.SyncAfterConflict(t.Context(), b.Log(), b, s)
				},
				"open":  func() (*projector.State, error) { return follow.Open(t.Context(), b, id) },
				"whole": func() (*projector.State, error) { return follow.Whole(t.Context(), b, id) },
			} {
				if got, err := sync(); err != nil || got.Seq != want.Seq || got.LastCommit() != want.LastCommit() || !bytes.Equal(encoded(t, got), encoded(t, want)) {
					t.Errorf("%s, %s: got %v, another history than %d, %q", id, name, err, want.Seq, want.LastCommit())
				}
			}
			if before > after { // a plain sync notices that too
				s := old.Clone()
				if err := follow.Sync(t.Context(), b.Log(), b, s); err != nil || s.Seq != want.Seq {
					t.Errorf("%s: sync: got %d, %v, want %d", id, s.Seq, err, want.Seq)
				}
			}
			mustProject(t, b, id)
			rowsAreOf(t, b, id, want)
		}
	}
}

// write makes a history of n commits whose ids have a prefix.
func write(t *testing.T, b *bus.Bus, id events.SessionID, n int, prefix string) {
	t.Helper()
	for i := range n {
		list := []events.Event{events.Of("", &events.SessionOpened{})}
		if i > 0 {
			list = []events.Event{events.Of("", &events.SessionConfigured{})}
		}
		c := &events.Commit{ID: events.CommitID(fmt.Sprintf("%s-%d", prefix, i)), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: list}
		_, err := b.Log().Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
}

// rowsAreOf checks that no row is newer than the state.
func rowsAreOf(t *testing.T, b *bus.Bus, id events.SessionID, want *projector.State) {
	t.Helper()
	stored, err := b.Directory().Get(t.Context(), id)
	var row follow.Directory
	if err != nil || json.Unmarshal(stored.Value, &row) != nil || row.Seq != want.Seq {
		t.Errorf("%s: directory: got %+v, %v, want sequence %d", id, row, err, want.Seq)
	}
	rows, _ := b.Index()
	if stored, err = rows.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	if have, err := index.Decode(stored.Value); err == nil && have.Seq > want.Seq {
		t.Errorf("%s: index: got sequence %d, want at most %d", id, have.Seq, want.Seq)
	}
	if have, err := follow.Stored(t.Context(), b, id); err == nil && have != nil && have.Seq > want.Seq {
		t.Errorf("%s: snapshot: got sequence %d, want at most %d", id, have.Seq, want.Seq)
	}
}

// replaced has another history in the place of a session's. Its row in the directory, with which no program appends to a session that is
// lost whole, is away meanwhile.
func replaced(t *testing.T, b *bus.Bus, js jetstream.JetStream, id events.SessionID, write func()) {
	t.Helper()
	row, err := b.Directory().Get(t.Context(), id)
	runtest.NoError(t, err)
	rows, err := js.KeyValue(t.Context(), "lash-sessions")
	if err == nil {
		err = rows.Purge(t.Context(), string(id))
	}
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-s-"+string(id))
	}
	runtest.NoError(t, err)
	write()
	_, err = b.Directory().Put(t.Context(), id, row.Value, 0)
	runtest.NoError(t, err)
}
