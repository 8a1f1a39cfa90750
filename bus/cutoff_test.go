package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// continued makes a session of five commits, of which the archive has three, with a row, and deletes its stream.
func continued(t *testing.T, b *bus.Bus, id events.SessionID, row events.Seq) {
	t.Helper()
	want := appendUpTo(t, b, id, nil, 3)
	mustMakeCold(t, b, id, 3)
	appendUpTo(t, b, id, want, 5)
	value, err := json.Marshal(bus.DirectorySeq{Seq: row})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Directory().Put(t.Context(), id, value, 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range streams(t, b) {
		if strings.HasPrefix(name, "lash-s-"+string(id)) {
			if err := jetStream(t, b).DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLostStreamIsNoticed deletes the stream of a session that continued after its archive. Every request for the session names
// the commits that are lost, also the first one and on other processes, until an operator accepts the loss.
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
			for what, err := range map[string]error{"last": lastErr, "append": appendErr, "append after the archive": shortErr, "read": read()} {
				got, ok := errors.AsType[*bus.CutOffError](err)
				if !ok || got.Session != want.Session || got.Last != want.Last || got.Known != want.Known || !strings.Contains(err.Error(), "commits 4 to 5 are lost") {
					t.Errorf("%s, try %d: %s: got %v, want %v", name, try, what, err, &want)
				}
			}
		}
	}
	lost, err := other.AcceptLoss(t.Context(), "s")
	if err != nil || lost.Last != 3 || lost.Known != 5 {
		t.Fatalf("accept: got %v, %v", lost, err)
	}
	if _, err := other.AcceptLoss(t.Context(), "s"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("accept again: got %v, want %v", err, bus.ErrNotFound)
	}
	for name, on := range map[string]*bus.Bus{"owner": b, "other": other} {
		if last, err := on.Log().Last(t.Context(), "s"); err != nil || last != 3 {
			t.Errorf("%s: end after the loss was accepted: got %d, %v, want 3", name, last, err)
		}
	}
	if seq, err := b.Log().Append(t.Context(), commit("s", 4), 3); err != nil || seq != 4 {
		t.Errorf("append after the loss was accepted: got %d, %v", seq, err)
	}
}

// TestStreamWithoutLoss deletes a stream whose session has no row of later commits: it continues after its archive, as before. Nothing is
// there to accept, neither in a session that is hot nor in one that does not exist.
func TestStreamWithoutLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	continued(t, b, "s", 3)
	if seq, err := b.Log().Append(t.Context(), commit("s", 4), 3); err != nil || seq != 4 {
		t.Errorf("append: got %d, %v", seq, err)
	}
	if _, err := b.AcceptLoss(t.Context(), "s"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("accept: got %v, want %v", err, bus.ErrNotFound)
	}
	if _, err := b.AcceptLoss(t.Context(), "none"); !errors.Is(err, events.ErrNoSession) {
		t.Errorf("accept in no session: got %v, want %v", err, events.ErrNoSession)
	}
}
