package follow_test

import (
	"bytes"
	"context"
	"iter"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// TestReceive receives the next commits of a state. It is not folded where the connection was made again since the state was read, until the state is
// compared with the log.
func TestReceive(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	bustest.Write(t, b, "s", 0, 3, "c")
	s := refold(t, b, "s")
	receive := func() bool {
		t.Helper()
		e, err := b.Log().CommitInFirstStream(t.Context(), "s", s.Seq+1)
		runtest.NoError(t, err)
		before := s.Seq
		folded := follow.Receive(b, s, e)
		if folded != (s.Seq == before+1) {
			t.Errorf("got a fold %t, and a state at %d after %d", folded, s.Seq, before)
		}
		return folded
	}
	bustest.Write(t, b, "s", 3, 2, "c")
	runtest.NoError(t, follow.Sync(t.Context(), b.Log(), b, s))
	bustest.Write(t, b, "s", 5, 2, "c")
	if !receive() {
		t.Error("the next commit was not folded")
	}
	before := b.Reconnects()
	runtest.NoError(t, b.Conn().ForceReconnect())
	bustest.Eventually(t, "the bus is connected again", func() bool { return b.Reconnects() > before && b.Conn().IsConnected() })
	if receive() {
		t.Error("a commit was folded into a state of before a reconnect")
	}
	runtest.NoError(t, follow.Compare(t.Context(), b, s))
	if !receive() {
		t.Error("the next commit was not folded into a state that was compared")
	}
}

// replacedOnce is a log whose first read ends because another history is in the place of the one that it read.
type replacedOnce struct {
	events.Log
	next events.Log
	done bool
}

func (l *replacedOnce) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	if l.done {
		return l.next.Read(ctx, id, from)
	}
	l.done = true
	return func(yield func(events.Entry, error) bool) {
		for e, err := range l.Log.Read(ctx, id, from) {
			if !yield(e, err) {
				return
			}
		}
		yield(events.Entry{}, events.ErrShorter)
	}
}

// TestAtOverReplacedHistory folds a history that is replaced by another one meanwhile. The states are of the second one alone.
func TestAtOverReplacedHistory(t *testing.T) {
	t.Parallel()
	b, other := bustest.Start(t), bustest.Start(t)
	bustest.Write(t, b, "s", 0, 5, "old")
	bustest.Write(t, other, "s", 0, 7, "new")
	for name, at := range map[string]func(context.Context, events.Log, follow.BlobReader, events.SessionID, events.Seq) (*projector.State, error){
		"At": follow.At, "ReadAt": follow.ReadAt,
	} {
		got, err := at(t.Context(), &replacedOnce{Log: b.Log(), next: other.Log()}, b, "s", 7)
		want, wantErr := at(t.Context(), other.Log(), other, "s", 7)
		if err != nil || wantErr != nil || got.LastCommit() != want.LastCommit() || got.Events != want.Events {
			t.Errorf("%s: got a state at %d with %d events, %v, want %d with %d", name, got.Seq, got.Events, err, want.Seq, want.Events)
		}
	}
}

// TestSnapshotOfLostStream opens a session with a snapshot of commits that are lost, in the stream that continues its archive. The history that is in
// their place is as long.
func TestSnapshotOfLostStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	bustest.Write(t, b, "s", 0, 3, "kept")
	if done, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), "s"); !done || err != nil {
		t.Fatalf("archive: got %t, %v", done, err)
	}
	lost := lostSnapshot(t, b)
	bustest.Write(t, b, "s", 3, 2, "new")
	_, err := follow.Save(t.Context(), b, lost)
	runtest.NoError(t, err)
	want, err := follow.At(t.Context(), b.Log(), b, "s", 5)
	runtest.NoError(t, err)
	got, err := follow.Whole(t.Context(), b, "s")
	if err != nil || got.LastCommit() != want.LastCommit() || !bytes.Equal(encoded(t, got), encoded(t, want)) {
		t.Errorf("got a state at %d of %q, %v, want %d of %q", got.Seq, got.LastCommit(), err, want.Seq, want.LastCommit())
	}
}

// lostSnapshot is the state of an archived session with two commits that the log does not have.
func lostSnapshot(t *testing.T, b *bus.Bus) *projector.State {
	t.Helper()
	s, err := follow.At(t.Context(), b.Log(), b, "s", 3)
	runtest.NoError(t, err)
	for _, id := range []events.CommitID{"lost-4", "lost-5"} {
		c := &events.Commit{ID: id, Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionConfigured{})}}
		runtest.NoError(t, s.Apply(events.Entry{Seq: s.Seq + 1, Commit: c}))
	}
	return s
}
