package internal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	sessionarchive "github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/internal/stack"
)

// TestPluginsAfterLoss opens the plugins of a session again after two of its five commits were lost, and the stream was put back without them: they are
// built again, also where the new history is as long as the lost one, or longer. Those of a session that was archived and continued stay.
func TestPluginsAfterLoss(t *testing.T) {
	t.Parallel()
	for _, fresh := range []int{1, 2, 4} {
		for _, loses := range []bool{true, false} {
			t.Run(fmt.Sprint(fresh, "_loses_", loses), func(t *testing.T) {
				t.Parallel()
				on := bustest.Start(t)
				b := setupWith(t, stack.Config{CommitAt: func(ctx context.Context, id events.SessionID, seq events.Seq) (events.CommitID, error) {
					e, err := on.Log().CommitAt(ctx, id, seq)
					if err != nil {
						return "", err
					}
					return e.Commit.ID, nil
				}})
				appendTo(t, on, 0, 3, "kept")
				archive(t, on, 3)
				appendTo(t, on, 3, 2, "old")
				state := whole(t, on)
				_, release := b.open(t, state)
				release()
				if loses {
					appendTo(t, on, int(lose(t, on)), fresh, "new")
				} else {
					archive(t, on, 5)
					appendTo(t, on, 5, fresh, "new")
				}
				now := whole(t, on)
				if now.Incarnation() == state.Incarnation() {
					t.Fatalf("got one incarnation %q, want two", now.Incarnation())
				}
				for range 2 { // once is enough
					_, release = b.open(t, now.Clone())
					release()
				}
				want := 1
				if loses {
					want = 2
				}
				if b.built != want {
					t.Errorf("got %d stacks built, want %d", b.built, want)
				}
			})
		}
	}
}

// TestPluginsAfterRedaction opens the plugins of a session again after an event of it was redacted: they are built again, once.
func TestPluginsAfterRedaction(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	b := setupWith(t, stack.Config{CommitAt: func(context.Context, events.SessionID, events.Seq) (events.CommitID, error) {
		return "", errors.New("is not asked")
	}})
	appendTo(t, on, 0, 3, "kept")
	c := &events.Commit{ID: "end", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionClosed{})}}
	_, err := on.Log().Append(t.Context(), c, 3)
	runtest.NoError(t, err)
	runtest.NoError(t, follow.NewProjector(on, nil).Project(t.Context(), "s"))
	archive(t, on, 4)
	for want := 1; want <= 2; want++ {
		for range 2 {
			_, release := b.open(t, whole(t, on))
			release()
		}
		if b.built != want {
			t.Fatalf("got %d stacks built, want %d", b.built, want)
		}
		r := events.RedactionRecord{At: 1, By: "ann", Reason: "asked to", What: []string{string(events.KindSessionConfigured)}}
		_, err := sessionarchive.Redact(t.Context(), on, "s", r, nil)
		runtest.NoError(t, err)
	}
}

func whole(t *testing.T, b *bus.Bus) *projector.State {
	t.Helper()
	s, err := follow.Whole(t.Context(), b, "s")
	runtest.NoError(t, err)
	return s
}

// appendTo appends n commits after a sequence, whose ids begin with a text.
func appendTo(t *testing.T, b *bus.Bus, after, n int, text string) {
	t.Helper()
	for i := after; i < after+n; i++ {
		payload := events.Payload(&events.SessionConfigured{})
		if i == 0 {
			payload = &events.SessionOpened{}
		}
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint(text, i)), Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", payload)},
		}
		_, err := b.Log().Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
}

func archive(t *testing.T, b *bus.Bus, last events.Seq) {
	t.Helper()
	runtest.NoError(t, errors.Join(b.Archive(t.Context(), "s", last), b.Discard(t.Context(), "s")))
}

// lose deletes the stream of the session, and puts it back without its commits. It returns the new end.
func lose(t *testing.T, b *bus.Bus) events.Seq {
	t.Helper()
	runtest.NoError(t, follow.NewProjector(b, nil).Project(t.Context(), "s"))
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	for name := range js.StreamNames(t.Context(), jetstream.WithStreamListSubject("lash.s.s.>")).Name() {
		runtest.NoError(t, js.DeleteStream(t.Context(), name))
	}
	return bustest.PutBack(t, b, "s")
}
