package follow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// indexRow is the stored index row of a session; nil for none.
func indexRow(t *testing.T, b *bus.Bus, id events.SessionID) (*index.Row, uint64) {
	t.Helper()
	rows, ok := b.Index()
	if !ok {
		t.Fatal("the bus has no index")
	}
	stored, err := rows.Get(t.Context(), id)
	runtest.NoError(t, err)
	if stored.Revision == 0 {
		return nil, 0
	}
	row, err := index.Decode(stored.Value)
	runtest.NoError(t, err)
	return row, stored.Revision
}

// sameIndex compares the stored row with the one made from the history.
func sameIndex(t *testing.T, b *bus.Bus, id events.SessionID, seq events.Seq) {
	t.Helper()
	s, err := follow.Open(t.Context(), b, id)
	runtest.NoError(t, err)
	want, err := follow.IndexRow(t.Context(), b.Log(), s)
	runtest.NoError(t, err)
	got, _ := indexRow(t, b, id)
	if got == nil || got.Seq != seq || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("index row of %s: got %+v, want %+v at %d", id, got, want, seq)
	}
}

// TestIndexRow: projectors keep the row of a session, from its snapshot or its beginning, and write it once.
func TestIndexRow(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 2)
	mustProject(t, b, "s")
	sameIndex(t, b, "s", 40)
	_, before := indexRow(t, b, "s")
	mustProject(t, b, "s")
	if _, after := indexRow(t, b, "s"); after != before {
		t.Errorf("unchanged session: got revision %d, want %d", after, before)
	}
	grow(t, b, "s", 40, 45, 2)
	mustProject(t, b, "s")
	sameIndex(t, b, "s", 45)

	rows, _ := b.Index()
	_, err := rows.Update(t.Context(), "s", func(bus.Row) ([]byte, error) { return []byte("damaged"), nil })
	runtest.NoError(t, err)
	grow(t, b, "s", 45, 46, 2)
	mustProject(t, b, "s")
	sameIndex(t, b, "s", 46)
}

// TestProjectReadsOnce: the state and the index row of a session are made from one read of its commits, also of those after
// a snapshot and a row of one sequence. After a row of another sequence the commits are read again.
func TestProjectReadsOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	requests, err := b.Conn().SubscribeSync("$JS.API.DIRECT.GET.lash-s-s")
	runtest.NoError(t, err)
	reads := func() (list []events.Seq) {
		t.Helper()
		mustProject(t, b, "s")
		runtest.NoError(t, b.Conn().Flush())
		for n, _, _ := requests.Pending(); n > 0; n-- {
			m, err := requests.NextMsgWithContext(t.Context())
			runtest.NoError(t, err)
			var body struct {
				Seq  events.Seq `json:"seq"`
				From events.Seq `json:"start_seq"`
			}
			if json.Unmarshal(m.Data, &body) == nil && body.Seq+body.From > 0 {
				list = append(list, body.Seq+body.From)
			}
		}
		return list
	}
	grow(t, b, "s", 0, 40, 2)
	if got := reads(); !slices.Equal(got, []events.Seq{1}) {
		t.Errorf("a new session: got reads from %v, want one from 1", got)
	}
	grow(t, b, "s", 40, 45, 2)
	if got := reads(); !slices.Equal(got, []events.Seq{41, 40}) {
		t.Errorf("later: got reads from %v, want one from 41, and that of the snapshot's last commit", got)
	}
	dropIndexRow(t, b, "s")
	grow(t, b, "s", 45, 46, 2)
	if got := reads(); !slices.Equal(got, []events.Seq{41, 40, 1}) {
		t.Errorf("without a row: got reads from %v, want the same, and one from 1", got)
	}
	sameIndex(t, b, "s", 46)
}

// dropIndexRow removes a row, as if a version without the index had archived its session.
func dropIndexRow(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KV_lash-index")
	if err == nil {
		err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.lash-index."+string(id)))
	}
	runtest.NoError(t, err)
}

// TestIndexOfColdSessions: archiving writes the row, and the archiver indexes a session that has none.
func TestIndexOfColdSessions(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
	for _, id := range []events.SessionID{"a", "older"} {
		grow(t, b, id, 0, 5, 2)
		if done, err := archiver.Archive(t.Context(), id); err != nil || !done {
			t.Fatalf("archive %s: got %v, %v", id, done, err)
		}
		sameIndex(t, b, id, 5)
	}
	dropIndexRow(t, b, "older")
	if row, _ := indexRow(t, b, "older"); row != nil {
		t.Fatal("the row is still there")
	}
	runtest.NoError(t, archiver.Retain(t.Context(), time.Now()))
	sameIndex(t, b, "older", 5)
}
