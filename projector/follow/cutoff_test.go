package follow_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/lash-go/lash/projector/follow"
)

// TestStreamPutBack loses commits of all numbers after an archive, puts the stream back without them, and continues with other commits before
// a projector has seen that: no state has a commit that is lost.
func TestStreamPutBack(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for _, lost := range []int{1, 2, 3} {
		for fresh := range 5 {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", lost, fresh))
			write(t, b, id, 3, "old")
			runtest.NoError(t, b.Archive(t.Context(), id, 3))
			runtest.NoError(t, b.Discard(t.Context(), id))
			more(t, b, id, 3, lost, "old")
			mustProject(t, b, id)
			_, err := follow.Save(t.Context(), b, refold(t, b, id))
			runtest.NoError(t, err)
			loseStream(t, b, id)
			end := bustest.PutBack(t, b, id)
			more(t, b, id, int(end), fresh, "new")
			want := refold(t, b, id)
			got, err := follow.Whole(t.Context(), b, id)
			if err != nil || !bytes.Equal(encoded(t, got), encoded(t, want)) || got.LastCommit() != want.LastCommit() {
				t.Errorf("%s: state: got %v, another history than %d, %q", id, err, want.Seq, want.LastCommit())
			}
			mustProject(t, b, id)
			rowsAreOf(t, b, id, want)
		}
	}
}

// TestStateOfLostCommits keeps states of a running process through a loss, after which the stream is put back, of each number of lost and later commits, and
// one that knows its last commit or not. Each is that of the history afterwards. A process that lists hot sessions knows that its
// state is stale before it reads.
func TestStateOfLostCommits(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, node := bustest.Open(t, server), bustest.Open(t, server)
	for lost := 1; lost <= 3; lost++ {
		for fresh := range 5 {
			for _, knows := range []bool{true, false} {
				id := events.SessionID(fmt.Sprintf("s-%d-%d-%t", lost, fresh, knows))
				cutOff(t, b, id, lost, func() *projector.State {
					s, err := follow.Whole(t.Context(), node, id)
					runtest.NoError(t, err)
					if !knows {
						s.SetLastCommit("")
					}
					return s
				}, func(kept *projector.State, end events.Seq) {
					more(t, b, id, int(end), fresh, "new")
					for hot, err := range node.Hot(t.Context()) {
						if err != nil {
							t.Fatal(err, hot)
						}
					}
					if !follow.IsStale(node, kept) {
						t.Errorf("%s: the process does not know that its state is stale", id)
					}
					want := refold(t, b, id)
					runtest.NoError(t, follow.Sync(t.Context(), node.Log(), node, kept))
					if !bytes.Equal(encoded(t, kept), encoded(t, want)) || kept.LastCommit() != want.LastCommit() || follow.IsStale(node, kept) {
						t.Errorf("%s: got the state at %d, %q, want %d, %q", id, kept.Seq, kept.LastCommit(), want.Seq, want.LastCommit())
					}
				})
			}
		}
	}
}

// cutOff loses commits of a session after its archive of three, and puts the stream back without them. keep is called before, and then
// afterwards, with what it returned.
func cutOff(t *testing.T, b *bus.Bus, id events.SessionID, lost int, keep func() *projector.State, then func(kept *projector.State, end events.Seq)) {
	t.Helper()
	write(t, b, id, 3, "old")
	runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, 3), b.Discard(t.Context(), id)))
	more(t, b, id, 3, lost, "old")
	mustProject(t, b, id)
	kept := keep()
	loseStream(t, b, id)
	then(kept, bustest.PutBack(t, b, id))
}

// loseStream deletes the stream of a session that continued after its archive.
func loseStream(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	deleteStreams(t, b, id)
	if _, err := b.Log().Last(t.Context(), id); !errors.As(err, new(*bus.CutOffError)) {
		t.Fatalf("got %v", err)
	}
}

func deleteStreams(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	for name := range js.StreamNames(t.Context(), jetstream.WithStreamListSubject("lash.s."+string(id)+".>")).Name() {
		runtest.NoError(t, js.DeleteStream(t.Context(), name))
	}
}

// more appends n commits after a sequence.
func more(t *testing.T, b *bus.Bus, id events.SessionID, at, n int, prefix string) {
	t.Helper()
	for i := at; i < at+n; i++ {
		c := &events.Commit{ID: events.CommitID(fmt.Sprintf("%s-%d", prefix, i)), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionConfigured{Config: events.Config{Model: prefix}})}}
		_, err := b.Log().Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
}

// TestLongEraseAfterLossDies kills the eraser of a session with lost commits at each request: of those after its archive, and of all of a session
// that was never archived. Once the row has the mark, no append and no creation continues the session, and an archiver
// finishes the erasure.
func TestLongEraseAfterLossDies(t *testing.T) {
	t.Parallel()
	for _, kept := range []events.Seq{0, 3} {
		t.Run(fmt.Sprint("kept ", kept), func(t *testing.T) {
			t.Parallel()
			eraseAfterLossDies(t, kept)
		})
	}
}

func eraseAfterLossDies(t *testing.T, kept events.Seq) {
	t.Helper()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
	marked := 0
	for k := 1; ; k++ {
		id := events.SessionID(fmt.Sprintf("s-%d", k))
		write(t, b, id, 3, "old")
		if kept > 0 {
			runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, kept), b.Discard(t.Context(), id)))
		}
		more(t, b, id, 3, 2, "old")
		mustProject(t, b, id)
		loseStream(t, b, id)
		done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := follow.Erase(ctx, victim, id, nil, stone(id), nil)
			return err
		})
		if row := directoryRow(t, b, id); row.Erased != nil {
			c := &events.Commit{ID: "new", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionConfigured{})}}
			if seq, err := b.Log().Append(t.Context(), c, kept); err == nil {
				t.Errorf("killed at %d: append: got sequence %d, want an error", k, seq)
			}
			runtest.NoError(t, archiver.Retain(t.Context(), time.UnixMilli(9000)))
			erased(t, b, id, kept)
			marked++
		}
		if done {
			break
		}
	}
	if marked < 5 {
		t.Errorf("got %d erasures that had begun, want several", marked)
	}
}

// TestReaderErasesLoss erases a session with lost commits by a reader, before a node has noticed the loss.
func TestReaderErasesLoss(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	write(t, b, "s", 3, "old")
	runtest.NoError(t, errors.Join(b.Archive(t.Context(), "s", 3), b.Discard(t.Context(), "s")))
	more(t, b, "s", 3, 2, "old")
	mustProject(t, b, "s")
	deleteStreams(t, b, "s")
	reader, err := bus.OpenReader(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	runtest.NoError(t, err)
	defer reader.Close()
	_, err = follow.Erase(t.Context(), reader, "s", nil, stone("s"), nil)
	runtest.NoError(t, err)
	erased(t, b, "s", 3)
}

// TestImportOverLostWhole imports another history of a session of which all commits are lost, shorter, as long and longer. No state has a lost
// commit.
func TestImportOverLostWhole(t *testing.T) {
	t.Parallel()
	b, source := bustest.Start(t), bustest.Start(t)
	for n := 1; n <= 5; n++ {
		id := events.SessionID(fmt.Sprint("s", n))
		write(t, b, id, 3, "old")
		mustProject(t, b, id)
		_, err := follow.Save(t.Context(), b, refold(t, b, id))
		runtest.NoError(t, err)
		loseStream(t, b, id)
		write(t, source, id, n, "new")
		runtest.NoError(t, b.Restore(t.Context(), id, source.Log()))
		more(t, b, id, n, 3, "new")
		want := refold(t, b, id)
		got, err := follow.Whole(t.Context(), b, id)
		if err != nil || !bytes.Equal(encoded(t, got), encoded(t, want)) || got.LastCommit() != want.LastCommit() {
			t.Errorf("%s: state: got %v, another history than %d, %q", id, err, want.Seq, want.LastCommit())
		}
		mustProject(t, b, id)
		rowsAreOf(t, b, id, want)
	}
}
