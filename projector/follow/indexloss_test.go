package follow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// TestLongIndexAfterLoss puts a lost stream back, without its last commits, while a projector runs. The index row has the texts of the history that is left, and none of the
// lost ones, also where the new history is as long as the lost one, or longer.
func TestLongIndexAfterLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- follow.NewProjector(b, nil).Run(ctx) }()
	defer func() {
		stop()
		runtest.WantError(t, "projector", <-ended, nil)
	}()
	for _, fresh := range []int{1, 2, 4} {
		id := events.SessionID(fmt.Sprintf("s-%d", fresh))
		write(t, b, id, 3, "old")
		runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, 3), b.Discard(t.Context(), id)))
		says(t, b, id, 3, 2, "vanished")
		awaitIndex(t, b, id, "vanished")
		loseStream(t, b, id)
		end := int(bustest.PutBack(t, b, id))
		says(t, b, id, end, fresh, "remaining")
		row := awaitIndex(t, b, id, "remaining")
		if row.Seq != events.Seq(end+fresh) || mayHave(row, "vanished") {
			t.Errorf("%s: got a row at %d with vanished %t, want one at %d without", id, row.Seq, mayHave(row, "vanished"), end+fresh)
		}
	}
}

// TestStoredIndexOfLostCommits has the row of lost commits stored again after the stream was put back without them, as by a projector that was about to
// write it. The next projector makes the row again.
func TestStoredIndexOfLostCommits(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, _ := b.Index()
	for _, fresh := range []int{1, 2, 4} {
		id := events.SessionID(fmt.Sprintf("s-%d", fresh))
		write(t, b, id, 3, "old")
		runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, 3), b.Discard(t.Context(), id)))
		says(t, b, id, 3, 2, "vanished")
		mustProject(t, b, id)
		lost, err := rows.Get(t.Context(), id)
		runtest.NoError(t, err)
		loseStream(t, b, id)
		end := int(bustest.PutBack(t, b, id))
		_, err = rows.Put(t.Context(), id, lost.Value, lost.Revision)
		runtest.NoError(t, err)
		says(t, b, id, end, fresh, "remaining")
		mustProject(t, b, id)
		if row := storedIndex(t, b, id); row == nil || mayHave(row, "vanished") || !mayHave(row, "remaining") {
			t.Errorf("%s: got %+v, want the row of the history", id, row)
		}
	}
}

// says appends n commits with a text after a sequence, and marks the session.
func says(t *testing.T, b *bus.Bus, id events.SessionID, at, n int, text string) {
	t.Helper()
	for i := at; i < at+n; i++ {
		c := commit(id, i+1, 0)
		c.ID, c.Events = events.CommitID(fmt.Sprint(text, i)), []events.Event{events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{
			ID: events.NodeID(fmt.Sprint(text, i)), Kind: events.NodeMessage, Message: events.Message{
				ID: events.MessageID(fmt.Sprint(text, i)), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}},
			},
		}}})}
		_, err := b.Log().Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
	runtest.NoError(t, b.MarkDirty(id))
}

func mayHave(row *index.Row, text string) bool {
	ok, _ := index.NewPlan(index.Query{Texts: []string{text}}).May(row, nil)
	return ok
}

func storedIndex(t *testing.T, b *bus.Bus, id events.SessionID) *index.Row {
	t.Helper()
	rows, _ := b.Index()
	stored, err := rows.Get(t.Context(), id)
	runtest.NoError(t, err)
	row, err := index.Decode(stored.Value)
	if err != nil {
		return nil
	}
	return row
}

// awaitIndex waits for an index row with the last commit of the history and a text.
func awaitIndex(t *testing.T, b *bus.Bus, id events.SessionID, text string) *index.Row {
	t.Helper()
	last, err := b.Log().Last(t.Context(), id)
	runtest.NoError(t, err)
	var row *index.Row
	bustest.Eventually(t, fmt.Sprintf("the index of %s has %s", id, text), func() bool {
		row = storedIndex(t, b, id)
		return row != nil && row.Seq == last && mayHave(row, text)
	})
	return row
}
