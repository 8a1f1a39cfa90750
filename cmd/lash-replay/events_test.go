package main

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestEveryLine: every event is one line, which names its place and its kind.
func TestEveryLine(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(strings.ReplaceAll(string(kind), ".", "_"), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := eventstest.Payload(kind).Draw(t, "payload")
				c := &events.Commit{Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: []events.Event{events.Of("t1", p)}}
				if s := lineOf(events.Entry{Seq: 7, Commit: c}, 0); strings.ContainsAny(s, "\n\x1b") || !strings.HasPrefix(s, "7.0 ") || !strings.Contains(s, " "+string(kind)+" ") {
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
	w := program.NewTerminal(&out)
	e := &env{Streams: &program.Streams{Out: w}}
	rows := []api.SessionSummary{{ID: "s1", Status: "open", Running: "t1"}, {ID: "s2", Status: "open", Running: "t1", Approvals: 1}}
	runtest.NoError(t, errors.Join(e.writeTable(rows), w.Close()))
	for _, want := range []string{"s1       open, running ", "s2       open, asking "} {
		runtest.Contains(t, "string", out.String(), want)
	}
}
