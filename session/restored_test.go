package session_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/sessiontest"
)

// TestLongWatchOverRestoredStore puts an earlier copy of a store back while a slow watcher has commits in its buffer that are lost then. The
// watcher gets the commits of the restored history, and none that is lost.
func TestLongWatchOverRestoredStore(t *testing.T) {
	t.Parallel()
	const kept, lost, fresh = 4, 100, 50
	store := bustest.StartStore(t)
	b, other := store.Open(), store.Open()
	bustest.Write(t, other, sid, 0, kept-1, "kept")
	started := &events.Commit{
		ID: events.CommitID(fmt.Sprint("kept-", kept)), Session: sid, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
		Events: []events.Event{events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})},
	}
	_, err := other.Log().Append(t.Context(), started, kept-1)
	runtest.NoError(t, err)
	store.Save(b, other)
	h := sessiontest.NewHost(t, session.Config{Bus: b})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, holds, resume := make(chan string, 2*lost), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(seen)
		for o, err := range h.Observe(ctx, sid, 0) {
			switch {
			case err != nil:
				seen <- err.Error()
			case o.Delta != nil:
				seen <- o.Delta.Message.Text
			default:
				seen <- string(o.Commit.ID)
			}
			if o.Seq == kept {
				close(holds)
				<-resume
			}
		}
	}()
	bustest.Receive(t, "the last commit that is kept", holds)
	before := b.Conn().Stats().InMsgs
	bustest.Write(t, other, sid, kept, lost, "lost")
	bustest.Eventually(t, "the lost commits arrive", func() bool { return b.Conn().Stats().InMsgs >= before+lost })
	store.Restore(b, other)
	bustest.Write(t, other, sid, kept, fresh, "new")
	close(resume)
	var got, want []string
	for seq := 1; seq <= kept+fresh; seq++ {
		id := fmt.Sprint("kept-", seq)
		if seq > kept {
			id = fmt.Sprint("new-", seq)
		}
		want = append(want, id)
		got = append(got, bustest.Receive(t, "a commit", seen))
	}
	marker, err := events.EncodePayload(&api.Delta{Turn: "t1", Message: api.SideMessage{Text: "all is read"}})
	if err == nil {
		err = other.PublishDelta(sid, "t1", marker) // comes after what is in the buffer
	}
	runtest.NoError(t, err)
	want, got = append(want, "all is read"), append(got, bustest.Receive(t, "the message", seen))
	runtest.EqualLists(t, "got", got, want)
}

// TestLongAppendOverRestoredStore has a worker append on a state with lost commits, while its connection is made again to a server with an earlier
// copy of the store. Others have appended as many, so that the history accepts the commit. The worker learns that the outcome is not what it
// decided, and its host has the state of the history.
func TestLongAppendOverRestoredStore(t *testing.T) {
	t.Parallel()
	const kept, lost = 3, 2
	store, gate := bustest.StartStore(t), &bustest.Gate{}
	b, other := store.Open(gate.Option()), store.Open()
	bustest.Write(t, other, sid, 0, kept, "kept")
	store.Save(b, other)
	bustest.Write(t, other, sid, kept, lost, "lost")
	h := sessiontest.NewHost(t, session.Config{Bus: b})
	on, err := h.State(t.Context(), sid)
	runtest.NoError(t, err)
	open := gate.Close()
	store.Restore(other)
	bustest.Write(t, other, sid, kept, lost, "new")
	appended := make(chan error, 1)
	go func() {
		c := &events.Commit{
			ID: "own", Session: sid, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Salt: session.NewSalt(),
			Events: []events.Event{events.Of("", &events.SessionConfigured{})},
		}
		_, err := h.Worker().AppendCommit(t.Context(), c, on, func(stored *events.Commit) (*projector.State, error) {
			err := on.Apply(events.Entry{Seq: on.Seq + 1, Commit: stored})
			return on.Clone(), err
		})
		appended <- err
	}()
	bustest.Eventually(t, "the append waits for a connection", func() bool { n, err := b.Conn().Buffered(); return err == nil && n > 0 })
	open()
	runtest.WantError(t, "append", bustest.Receive(t, "the end of the append", appended), events.ErrOutcomeUnknown)
	want, err := follow.At(t.Context(), other.Log(), other, sid, kept+lost+1)
	if err != nil || want.LastCommit() != "own" {
		t.Fatalf("got a history that ends at %d with %q, %v, want the commit of the worker", want.Seq, want.LastCommit(), err)
	}
	got, err := h.State(t.Context(), sid)
	if err != nil || !bytes.Equal(headOf(t, got), headOf(t, want)) {
		t.Errorf("got a state at %d that differs from a fold of the history, %v", got.Seq, err)
	}
}

// headOf encodes a state.
func headOf(t *testing.T, s *projector.State) []byte {
	t.Helper()
	head, _, err := s.Snapshot()
	runtest.NoError(t, err)
	return head
}
