package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// TestCommitAtReadsOne reads one commit of a long history: the servers are asked for that one alone.
func TestCommitAtReadsOne(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 9)
	requests, err := b.Conn().SubscribeSync("$JS.API.DIRECT.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Log().CommitAt(t.Context(), "s", 4)
	if err != nil || got.Seq != 4 || !strings.Contains(want[3], string(got.Commit.ID)) {
		t.Fatalf("got %d, %v, want the commit at 4", got.Seq, err)
	}
	if _, err := b.Log().CommitAt(t.Context(), "s", 10); !errors.Is(err, events.ErrShorter) {
		t.Errorf("after the end: got %v, want %v", err, events.ErrShorter)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	found := 0
	for n, _, _ := requests.Pending(); n > 0; n-- {
		m, err := requests.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
