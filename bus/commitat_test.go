package bus_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestCommitAtReadsOne reads one commit of a long history: the servers are asked for that one alone.
func TestCommitAtReadsOne(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 9)
	requests, err := b.Conn().SubscribeSync("$JS.API.DIRECT.GET.>")
	runtest.NoError(t, err)
	got, err := b.Log().CommitAt(t.Context(), "s", 4)
	if err != nil || got.Seq != 4 || !strings.Contains(want[3], string(got.Commit.ID)) {
		t.Fatalf("got %d, %v, want the commit at 4", got.Seq, err)
	}
	_, err = b.Log().CommitAt(t.Context(), "s", 10)
	runtest.WantError(t, "after the end", err, events.ErrShorter)
	runtest.NoError(t, b.Conn().Flush())
	found := 0
	for n, _, _ := requests.Pending(); n > 0; n-- {
		m, err := requests.NextMsgWithContext(t.Context())
		runtest.NoError(t, err)
		var body struct{ Seq, Batch int }
		if json.Unmarshal(m.Data, &body) == nil && body.Seq > 0 {
			found++
			if body.Seq != 4 || body.Batch > 1 {
				t.Errorf("request: got %s, want the commit at 4 alone", m.Data)
			}
		}
	}
	if found != 1 {
		t.Errorf("got %d requests for commits, want 1", found)
	}
}
