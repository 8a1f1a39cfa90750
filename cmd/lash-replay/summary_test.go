package main

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	now := time.Unix(0, 0)
	p := &progress{w: &out, now: func() time.Time { return now }, began: now}
	for i := range 50 { // five seconds
		now = time.Unix(0, 0).Add(time.Duration(i) * 100 * time.Millisecond)
		p.print("s1", events.Seq(i+1), 50)
	}
	want := "lash-replay: session s1, commit 21 of 50\nlash-replay: session s1, commit 31 of 50\nlash-replay: session s1, commit 41 of 50\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"a-1": "a-1", "a b": `"a b"`, "a\x1b[2J": `"a\x1b[2J"`, "é": "é"} {
		if got := quoted(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// TestEverySummary: every payload has a summary on one line.
func TestEverySummary(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(strings.ReplaceAll(string(kind), ".", "_"), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := eventstest.Payload(kind).Draw(t, "payload")
				ev := events.Of("t1", p)
				if s := summary(&ev); strings.ContainsAny(s, "\n\x1b") {
					t.Errorf("got %q, want one line", s)
				}
			})
		})
	}
}
