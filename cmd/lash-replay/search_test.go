package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
)

// shelf is a server with sessions that tests search.
type shelf struct {
	t   *testing.T
	b   *bus.Bus
	url string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return &shelf{t, b, server.URL()}
}

// add makes a session of one turn that calls a tool, at a minute of a day.
func (s *shelf) add(id events.SessionID, minute int, actor, question, result string, outcome events.Outcome, labels map[string]string) {
	s.t.Helper()
	text := func(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }
	call := events.Part{Kind: events.PartToolCall, Call: "c", Tool: "lookup", Args: []byte(`{"id":"` + string(id) + `"}`)}
	for i, list := range [][]events.Event{
		{events.Of("", &events.SessionOpened{Labels: labels, Config: events.Config{Model: "m1"}})},
		{events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: text(question)}}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"})},
		{events.Of("t1", &events.ModelReplied{Parts: []events.Part{call}, Stop: events.StopToolUse, Model: "m1"})},
		{events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{{Text: result, Outcome: outcome}}})},
		{events.Of("t1", &events.ModelReplied{Iteration: 1, Parts: text("done"), Stop: events.StopEnd, Model: "m1"}), events.Of("t1", &events.TurnCompleted{End: events.EndFinished})},
	} {
		by := events.Actor{Kind: events.ActorNode, ID: "w"}
		if i < 2 {
			by = events.Actor{Kind: events.ActorClient, ID: actor}
		}
		c := &events.Commit{ID: events.CommitID(ulid.Make().String()), Session: id, At: events.Millis(1_700_000_000_000 + minute*60_000), Actor: by, Events: list}
		_, err := s.b.Log().Append(s.t.Context(), c, events.Seq(i))
		runtest.NoError(s.t, err)
	}
}

func (s *shelf) project(id events.SessionID) {
	s.t.Helper()
	runtest.NoError(s.t, follow.NewProjector(s.b, nil).Project(s.t.Context(), id))
}

func (s *shelf) archive(id events.SessionID) {
	s.t.Helper()
	if done, err := follow.NewArchiver(s.b, follow.ArchiverConfig{}).Archive(s.t.Context(), id); err != nil || !done {
		s.t.Fatalf("archive %s: got %v, %v", id, done, err)
	}
}

// run runs lash-replay on the server and returns its output.
func (s *shelf) run(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	code := run(s.t.Context(), append(args, "--nats", s.url), &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if code != 0 {
		s.t.Fatalf("%q: got exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}

// searchOutput is what search prints with --json.
type searchOutput struct {
	Sessions []struct {
		ID      events.SessionID
		Matches []struct {
			Turn, Text, Actor string
			Kind              events.Kind
			Seq               events.Seq
		}
	}
	Searched, Opened, Unindexed int
	Failed                      []struct{ Session, Error string }
}

// search is the output of a search: the sessions in order, and the numbers.
func (s *shelf) search(args ...string) (ids []string, out searchOutput) {
	s.t.Helper()
	runtest.NoError(s.t, json.Unmarshal([]byte(s.run(append([]string{"search", "--json"}, args...)...)), &out))
	for _, f := range out.Sessions {
		ids = append(ids, string(f.ID))
	}
	return ids, out
}

// TestSearch searches hot, cold and unindexed sessions: each condition, and only sessions that match are opened.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("hot", 1, "ann", "Where is my refund?", "Refund 77 is on its way", "", map[string]string{"team": "a"})
	s.add("cold", 2, "bob", "Cancel the order", "no refund: too late", events.OutcomeFailure, map[string]string{"team": "b"})
	s.add("late", 3, "ann", "Hello", "nothing", "", nil)
	s.add("other", 4, "eve", "weather?", "rain", "", nil)
	for _, id := range []events.SessionID{"hot", "other"} {
		s.project(id)
	}
	s.archive("cold") // late has no row
	for _, c := range []struct {
		args string
		want string
	}{
		{"refund", "cold hot"},
		{"REFUND 77", "hot"},
		{"refund order", "cold"},
		{"hello", "late"},
		{"fund:", "cold"},
		{"refund weather", ""},
		{"--tool lookup", "other cold hot late"},
		{"--tool look", ""},
		{"--actor ann", "hot late"},
		{"--actor client:bob", "cold"},
		{"--outcome failure", "cold"},
		{"--outcome success refund", "hot"},
		{"--label team=a", "hot"},
		{"--label team=", "cold hot"},
		{"--since 2023-11-14T22:15:20Z refund", "cold"},
		{"--until 2023-11-14T22:14:20Z", "hot"},
		{"--tool lookup --limit 1", "other"},
	} {
		args := strings.Fields(c.args)
		if c.args == "REFUND 77" {
			args = []string{c.args}
		}
		got, out := s.search(args...)
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.args, got, want)
		}
		if out.Searched != 4 || out.Unindexed != 1 {
			t.Errorf("%s: got %d searched, %d unindexed, want 4 and 1", c.args, out.Searched, out.Unindexed)
		}
	}
	_, out := s.search("refund")
	if m := out.Sessions[0].Matches[0]; out.Opened != 2 || m.Turn != "t1" || m.Kind != events.KindToolReturned || m.Text != "no refund: too late" || m.Actor != "node:w" || m.Seq != 4 {
		t.Errorf("got %d opened, %+v", out.Opened, m)
	}
	if text := s.run("search", "refund"); !strings.Contains(text, "cold  2023-11-14T22:15:20.000Z m1 {\"team\":\"b\"}\n  4.0     t1 tool.returned node:w  no refund: too late\n") ||
		!strings.Contains(text, "2 sessions of 4 sessions, 2 read, 1 without an index row\n") {
		t.Errorf("got %s", text)
	}
	_, err := follow.Erase(t.Context(), s.b, "cold", nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked"}, nil)
	runtest.NoError(t, err)
	if got, _ := s.search("refund"); !slices.Equal(got, []string{"hot"}) {
		t.Errorf("after the erasure: got %v, want hot", got)
	}
}

// TestSearchRefuses: mistakes say what to do.
func TestSearchRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "search for what?", "--since soon": `--since "soon": want a time`, "--limit 0 x": "at least 1", "--tool x --matches 0": "at least 1",
	} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"search", "--file", "none"}, strings.Fields(args)...), &program.Streams{Out: new(bytes.Buffer), Err: &errs, Env: func(string) string { return "" }})
		if code != exitError || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: got %d, %s, want %s", args, code, errs.String(), want)
		}
	}
}

// TestLongSearchBesideBroken: sessions that cannot be decoded or folded are named, the others are found.
func TestLongSearchBesideBroken(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i, id := range []events.SessionID{"garbage", "mixed", "rowless", "good"} {
		s.add(id, i, "ann", "Where is my refund?", "on its way", "", nil)
	}
	s.project("garbage") // its row is good, its history is not
	s.project("good")
	js, err := jetstream.New(s.b.Conn())
	runtest.NoError(t, err)
	other, err := events.Encode(&events.Commit{ID: events.CommitID(ulid.Make().String()), Session: "good", Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: []events.Event{events.Of("", &events.SessionClosed{})}})
	runtest.NoError(t, err)
	for subject, data := range map[string][]byte{"lash.s.garbage.session": []byte("no commit"), "lash.s.mixed.session": other} {
		_, err = js.Publish(t.Context(), subject, data)
		runtest.NoError(t, err)
	}
	for _, args := range [][]string{{"refund"}, {"refund", "--json"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"search", "--nats", s.url}, args...), &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
		if code != exitError {
			t.Errorf("%v: got exit code %d, want %d", args, code, exitError)
		}
		for _, want := range []string{"session garbage cannot be read: ", "session mixed cannot be read: ", "2 sessions could not be searched"} {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%v: got %s, want %q", args, errs.String(), want)
			}
		}
		if len(args) == 1 {
			if !strings.Contains(out.String(), "good  ") || !strings.Contains(out.String(), "rowless  ") || !strings.Contains(out.String(), "2 sessions of 4 sessions") {
				t.Errorf("got %s", out.String())
			}
			continue
		}
		var list searchOutput
		runtest.NoError(t, json.Unmarshal(out.Bytes(), &list))
		if len(list.Sessions) != 2 || len(list.Failed) != 2 || list.Failed[0].Session != "garbage" || list.Failed[1].Session != "mixed" || list.Failed[1].Error == "" {
			t.Errorf("got %+v", list)
		}
	}
}
