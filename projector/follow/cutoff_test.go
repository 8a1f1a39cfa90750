package follow_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// TestAcceptedLoss loses commits of all numbers after an archive, accepts the loss, and continues with other commits before a
// projector has seen that: no state has a commit that is lost.
func TestAcceptedLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js, err := jetstream.New(b.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []int{1, 2, 3} {
		for _, fresh := range []int{1, 2, 3, 4} {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", lost, fresh))
			write(t, b, id, 3, "old")
			if err := b.Archive(t.Context(), id, 3); err != nil {
				t.Fatal(err)
			}
			if err := b.Discard(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			more(t, b, id, 3, lost, "old")
			mustProject(t, b, id)
			if _, err := follow.Save(t.Context(), b, refold(t, b, id)); err != nil {
				t.Fatal(err)
			}
			names := js.StreamNames(t.Context(), jetstream.WithStreamListSubject("lash.s."+string(id)+".>"))
			for name := range names.Name() {
				if err := js.DeleteStream(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.Log().Last(t.Context(), id); !errors.As(err, new(*bus.CutOffError)) {
				t.Fatalf("got %v", err)
			}
			if _, err := b.AcceptLoss(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			more(t, b, id, 3, fresh, "new")
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

// more appends n commits after a sequence.
func more(t *testing.T, b *bus.Bus, id events.SessionID, at, n int, prefix string) {
	t.Helper()
	for i := at; i < at+n; i++ {
		c := &events.Commit{ID: events.CommitID(fmt.Sprintf("%s-%d", prefix, i)), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionConfigured{Config: events.Config{Model: prefix}})}}
		if _, err := b.Log().Append(t.Context(), c, events.Seq(i)); err != nil {
			t.Fatal(err)
		}
	}
}
