package projector_test

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// asks folds a commit of a request, with or without a key.
func asks(t testing.TB, s *projector.State, cause, key, digest string, list ...events.Payload) {
	t.Helper()
	c := &events.Commit{ID: "c", Session: s.Session, At: 1, Actor: events.Actor{Kind: events.ActorClient}, Cause: cause, Key: key, Digest: digest}
	for _, p := range append(list, &events.GraphBranched{Leaf: s.Leaf}) {
		c.Events = append(c.Events, events.Of("", p))
	}
	runtest.NoError(t, s.Apply(events.Entry{Seq: s.Seq + 1, Commit: c}))
}

// TestFindRequest finds the first request of a key in every part of the state.
func TestFindRequest(t *testing.T) {
	t.Parallel()
	s := begin(t).State
	asks(t, s, "close key", "key", "d1")
	asks(t, s, "take updates", "key", "d2")
	asks(t, s, "t1", "", "")
	check := func(where string) {
		t.Helper()
		for _, c := range []struct {
			key  string
			want projector.Request
		}{
			{"key", projector.Request{Key: "key", Digest: "d1", Seq: 2}},
			{"t1", projector.Request{}},
			{"", projector.Request{}},
		} {
			got, ok, err := s.FindRequest(c.key)
			if err != nil || got != c.want || ok != (c.want != projector.Request{}) {
				t.Errorf("%s: %q: got %+v, %t, %v, want %+v", where, c.key, got, ok, err, c.want)
			}
		}
	}
	check("in the head")
	for i := range projector.SegmentRequests {
		asks(t, s, "x", fmt.Sprint("other", i), "d")
	}
	if _, segments, err := s.Snapshot(); err != nil || len(segments) != 1 {
		t.Fatalf("got %d segments, %v, want 1", len(segments), err)
	}
	check("in a segment")
}

// TestRequestsStaySmall: requests without nodes do not make the head grow, and neither do requests without keys.
func TestRequestsStaySmall(t *testing.T) {
	t.Parallel()
	sizes := make(map[int]int)
	for _, n := range []int{projector.SegmentRequests - 1, 40 * projector.SegmentRequests} {
		s := begin(t).State
		for i := range n {
			asks(t, s, "take monitor updates", fmt.Sprintf("key%023d", i), fmt.Sprintf("%032d", i))
		}
		data, _, err := s.Snapshot()
		runtest.NoError(t, err)
		sizes[n] = len(data)
		const tree = 32 * (2*proof.KeptLeaves + 14) // an edge of 14 hashes is of 10 000 commits
		s = begin(t).State
		for i := range n {
			asks(t, s, []string{"open frame", "append nodes"}[i%2], "", "")
		}
		if data, _, err = s.Snapshot(); err != nil || len(data) > 1<<10+tree {
			t.Errorf("%d without a key: got a head of %d bytes, %v, want at most 1 KiB and the tree", n, len(data), err)
		}
	}
	if first, last := sizes[projector.SegmentRequests-1], sizes[40*projector.SegmentRequests]; last > first+40*200 {
		t.Errorf("got a head of %d bytes after %d of a few, want what the references to segments add", last, first)
	}
}

// BenchmarkFindRequest searches for an unused key among many.
func BenchmarkFindRequest(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := projector.New(sid)
			for i := range n {
				asks(b, s, "t", fmt.Sprintf("key%023d", i), fmt.Sprintf("%032d", i))
			}
			for b.Loop() {
				if _, ok, err := s.FindRequest("key00000000000000000000new"); ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
