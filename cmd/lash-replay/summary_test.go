package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/terminal"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/projector/follow"
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

// TestListOfAskingSession tells a session that waits for an answer from one whose turn runs.
func TestListOfAskingSession(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := terminal.New(&out)
	e := &env{Streams: &program.Streams{Out: w}}
	rows := []follow.Directory{{Session: "s1", Status: "open", Running: "t1"}, {Session: "s2", Status: "open", Running: "t1", Asks: 1}}
	if err := errors.Join(e.writeTable([]listed{listedOf(&rows[0]), listedOf(&rows[1])}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"s1       open, running ", "s2       open, asking "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}
