package bus_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// TestBlobOfALateReplica reads a body that is not there yet, as where a replica that is behind answers. It is stored while the read
// waits.
func TestBlobOfALateReplica(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	reader, writer := bustest.Open(t, server), bustest.Open(t, server)
	reader.ExpectLateReplicas(time.Minute)
	body := []byte("stored in another place a moment ago")
	lookups, err := writer.Conn().SubscribeSync("$JS.API.DIRECT.GET.OBJ_lash-blobs.>")
	if err == nil {
		err = writer.Conn().Flush()
	}
	runtest.NoError(t, err)
	go func() {
		for range 2 { // the second one follows the answer that there is no body
			_, err := lookups.NextMsg(time.Minute)
			runtest.WantError(t, "next msg", err, nil)
		}
		_, err := writer.PutBlob(t.Context(), body)
		runtest.WantError(t, "put blob", err, nil)
	}()
	got, err := reader.Blob(t.Context(), projector.RefOf(body))
	if err != nil || string(got) != string(body) {
		t.Errorf("got %q, %v, want the body", got, err)
	}
}

// TestBlobOfAReplicaFarBehind reads bodies while every other read is answered by a copy of the stream without messages,
// as by a replica that is behind for longer than reads wait. The leader has the bodies, so each is found. A body that
// the leader does not have is not.
func TestBlobOfAReplicaFarBehind(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	reader, writer := bustest.Open(t, server), bustest.Open(t, server)
	reader.ExpectLateReplicas(0)
	var bodies [][]byte
	for n := range 20 {
		body := fmt.Appendf(nil, "body %d", n)
		_, err := writer.PutBlob(t.Context(), body)
		runtest.NoError(t, err)
		bodies = append(bodies, body)
	}
	emptyCopy(t, writer, "OBJ_lash-blobs")
	for _, body := range bodies {
		got, err := reader.Blob(t.Context(), projector.RefOf(body))
		if err != nil || string(got) != string(body) {
			t.Errorf("got %q, %v, want %q", got, err, body)
		}
	}
	_, err := reader.Blob(t.Context(), projector.RefOf([]byte("nowhere")))
	runtest.WantError(t, "a body that is not stored", err, bus.ErrNotFound)
}

// TestAbsenceIsTheLeaders has every other read of bodies, of index rows and of what nodes agree on answered by a copy without messages. Cold
// sessions whose archives are bodies are whole, their erasure removes these, a span of rows has all of them, and a node without the store's key
// knows that it has none.
func TestAbsenceIsTheLeaders(t *testing.T) {
	t.Parallel()
	const tries, commits = 10, 6
	server := bustest.Server(t, busembed.Config{})
	b := bustest.OpenWith(t, server, bustest.Keys(t))
	id := func(n int) events.SessionID { return events.SessionID(fmt.Sprint("s", n)) }
	for n := range tries {
		for i := range commits {
			_, err := b.Log().Append(t.Context(), largeCommit(id(n), i), events.Seq(i))
			runtest.NoError(t, err)
		}
		mustMakeCold(t, b, id(n), commits)
	}
	rows, _ := b.Index()
	first, last := uint64(0), uint64(0)
	for n := range tries {
		revision, err := rows.Put(t.Context(), id(n), []byte("row"), 0)
		runtest.NoError(t, err)
		first, last = cmp.Or(first, revision), revision
	}
	emptyCopy(t, b, "KV_lash-index")
	emptyCopy(t, b, "OBJ_lash-blobs")
	emptyCopy(t, b, "KV_lash-plugins")
	for n := range tries {
		if got := history(t, b, id(n), 0); len(got) != commits {
			t.Errorf("read %d: got %d commits, want %d", n, len(got), commits)
		}
		found := 1
		for _, err := range rows.Between(t.Context(), first, last, nil) {
			found = counted(t, found, err)
		}
		if found != tries {
			t.Errorf("read %d: got %d rows, want %d", n, found, tries)
		}
		keyless, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
		runtest.NoError(t, err)
		runtest.WantError(t, fmt.Sprintf("node %d without keys", n), keyless.Writable(), events.ErrLocked)
		keyless.Close()
	}
	for n := range tries {
		runtest.WantError(t, "erase", erase(t.Context(), b, id(n)), nil)
	}
	if left, err := b.Blobs(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("after the erasures: got %d bodies, %v, want none", len(left), err)
	}
}

// emptyCopy makes a mirror of a stream that answers its reads, and has no messages.
func emptyCopy(t *testing.T, b *bus.Bus, stream string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	from, err := js.Stream(ctx, stream)
	runtest.NoError(t, err)
	mirror, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "behind-" + stream, Mirror: &jetstream.StreamSource{Name: stream}, MirrorDirect: true, AllowDirect: true})
	runtest.NoError(t, err)
	bustest.Eventually(t, "the mirror has all messages", func() bool {
		info, err := mirror.Info(ctx)
		return err == nil && info.State.LastSeq == from.CachedInfo().State.LastSeq
	})
	runtest.NoError(t, mirror.Purge(ctx))
}
