package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// continued makes a session of five commits, of which the archive has three, with a row, and deletes its stream.
func continued(t *testing.T, b *bus.Bus, id events.SessionID, row events.Seq) {
	t.Helper()
	want := appendUpTo(t, b, id, nil, 3)
	mustMakeCold(t, b, id, 3)
	appendUpTo(t, b, id, want, 5)
	value, err := json.Marshal(bus.DirectorySeq{Seq: row})
	runtest.NoError(t, err)
	_, err = b.Directory().Put(t.Context(), id, value, 0)
	runtest.NoError(t, err)
	for _, name := range streams(t, b) {
		if strings.HasPrefix(name, "lash-s-"+string(id)) {
			runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), name))
		}
	}
}

// TestLostStreamIsNoticed deletes the stream of a session that continued after its archive. Every request for the session names
// the commits that are lost, also the first one and on other processes, until the stream is put back. What is left can be read.
func TestLostStreamIsNoticed(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, server), bustest.Open(t, server)
	continued(t, b, "s", 5)
	want := bus.CutOffError{Session: "s", Last: 3, Known: 5}
	for try := range 2 {
		for name, on := range map[string]*bus.Bus{"owner": b, "other": other} {
			read := func() (err error) {
				for _, err = range on.Log().Read(t.Context(), "s", 5) {
					break
				}
				return err
			}
			_, lastErr := on.Log().Last(t.Context(), "s")
			_, appendErr := on.Log().Append(t.Context(), commit("s", 6), 5)
			_, shortErr := on.Log().Append(t.Context(), commit("s", 4), 3)
			_, remainingErr := on.Log().Remaining().Append(t.Context(), commit("s", 4), 3)
			for what, err := range map[string]error{
				"last": lastErr, "append": appendErr, "append after the archive": shortErr, "append to what is left": remainingErr, "read": read(),
			} {
				got, ok := errors.AsType[*bus.CutOffError](err)
				if !ok || got.Session != want.Session || got.Last != want.Last || got.Known != want.Known || !strings.Contains(err.Error(), "commits 4 to 5 are lost") {
					t.Errorf("%s, try %d: %s: got %v, want %v", name, try, what, err, &want)
				}
			}
			wantRemaining(t, on, "s", 3)
		}
	}
	bustest.PutBack(t, b, "s")
	for name, on := range map[string]*bus.Bus{"owner": b, "other": other} {
		if last, err := on.Log().Last(t.Context(), "s"); err != nil || last != 3 {
			t.Errorf("%s: end after the stream was put back: got %d, %v, want 3", name, last, err)
		}
	}
	if seq, err := b.Log().Append(t.Context(), commit("s", 4), 3); err != nil || seq != 4 {
		t.Errorf("append after the stream was put back: got %d, %v", seq, err)
	}
}

// wantRemaining reads what is left of a session with lost commits.
func wantRemaining(t *testing.T, b *bus.Bus, id events.SessionID, want events.Seq) {
	t.Helper()
	if last, err := b.Log().Remaining().Last(t.Context(), id); err != nil || last != want {
		t.Errorf("end of what is left: got %d, %v, want %d", last, err, want)
	}
	var read events.Seq
	for e, err := range b.Log().Remaining().Read(t.Context(), id, 1) {
		if err != nil || e.Seq != read+1 {
			t.Errorf("read of what is left: got %d, %v after %d", e.Seq, err, read)
			return
		}
		read = e.Seq
	}
	if read != want {
		t.Errorf("read of what is left: got %d commits, want %d", read, want)
	}
}

// TestReaderOfGoneStream reads a session of which no node has noticed that the server lost the stream, with a program that makes no stream by
// itself. It says what makes the stream again; [bus.Bus.Recreate] does.
func TestReaderOfGoneStream(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	continued(t, b, "s", 5)
	reader, err := bus.OpenReader(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	runtest.NoError(t, err)
	defer reader.Close()
	if _, err := reader.Log().Last(t.Context(), "s"); !errors.Is(err, events.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "lash-node fork s") {
		t.Errorf("read: got %v, want what makes the stream again", err)
	}
	runtest.NoError(t, reader.Recreate(t.Context(), "s"))
	wantRemaining(t, reader, "s", 3)
}

// TestLongReaderKeepsReplicas makes a stream again with a reader of a cluster: it has as many replicas as the others.
func TestLongReaderKeepsReplicas(t *testing.T) {
	t.Parallel()
	cluster := bustest.StartCluster(t)
	b := cluster.Open(t)
	continued(t, b, "s", 5)
	reader, err := bus.OpenReader(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{cluster.Servers[0].InProcess()}}))
	runtest.NoError(t, err)
	defer reader.Close()
	runtest.NoError(t, reader.Recreate(t.Context(), "s"))
	if got, want := reader.Replicas(), b.Replicas(); got != want {
		t.Errorf("got %d replicas, want %d", got, want)
	}
	for info := range jetStream(t, b).ListStreams(t.Context()).Info() {
		if strings.HasPrefix(info.Config.Name, "lash-s-") && info.Config.Replicas != b.Replicas() {
			t.Errorf("%s: got %d replicas, want %d", info.Config.Name, info.Config.Replicas, b.Replicas())
		}
	}
}

// TestStreamWithoutLoss deletes a stream whose session has no row of later commits: it continues after its archive, as before.
func TestStreamWithoutLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	continued(t, b, "s", 3)
	if seq, err := b.Log().Append(t.Context(), commit("s", 4), 3); err != nil || seq != 4 {
		t.Errorf("append: got %d, %v", seq, err)
	}
}
