package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

func transcriptText(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

func node(id events.NodeID, parent events.NodeID, turn events.TurnID, role events.Role, parts ...events.Part) *projector.Node {
	return &projector.Node{
		ID: id, Parent: parent, At: 1000, Turn: turn, Kind: events.NodeMessage,
		Message: events.Message{ID: events.MessageID(id), Role: role, Parts: parts},
	}
}

func render(t *testing.T, nodes []*projector.Node, opts transcript.Options) string {
	t.Helper()
	var out strings.Builder
	runtest.NoError(t, transcript.Render(&out, nodes, opts))
	return out.String()
}

func TestRender(t *testing.T) {
	t.Parallel()
	call := events.Part{Kind: events.PartToolCall, Call: "c1", Tool: "add", Args: []byte("{\n \"a\": 1\n}")}
	cut := events.Part{Kind: events.PartToolCall, Tool: "add", Args: []byte("{\"a\n")}
	result := events.Part{Kind: events.PartToolResult, Call: "c1", Tool: "add", Text: "3\n4\n"}
	failed := events.Part{Kind: events.PartToolResult, Tool: "add", Text: "no", Outcome: events.OutcomeFailure}
	picture := events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: "aGk="}
	note := &projector.Node{ID: "n1", Parent: "a2", Kind: events.NodePlugin, Type: "note", Body: []byte(`{"x":1}`), Frame: "f2"}
	late := node("u2", "n1", "t2", events.RoleUser, transcriptText("again"), picture)
	late.Frame = "f2"
	path := []*projector.Node{
		node("s1", "", "", events.RoleSystem, transcriptText("be brief")),
		node("u1", "s1", "t1", events.RoleUser, transcriptText("1+2?")),
		node("a1", "u1", "t1", events.RoleAssistant, events.Part{Kind: events.PartReasoning, Text: "hm"}, call, cut),
		node("r1", "a1", "t1", events.RoleUser, result, failed),
		node("a2", "r1", "t1", events.RoleAssistant, transcriptText("3")),
		note, late,
	}
	path[4].Message.Stop = events.StopOutputLimit
	all := append([]*projector.Node{node("x0", "", "", events.RoleUser), node("b1", "u1", "t0", events.RoleUser), node("b2", "b1", "t0", events.RoleUser)}, path...)
	got := render(t, path, transcript.Options{
		Frames: []projector.Frame{{ID: "f1"}, {ID: "f2", Reason: "compaction", Keep: "a2"}},
		Turns: []projector.TurnRecord{{
			ID: "t1", End: events.EndIncomplete, Issue: events.Issue{Kind: "provider", Code: "output_limit"}, Attempts: 2, ModelCalls: 2, ToolCalls: 1,
			Usage: events.Usage{Input: 7, Output: 3, CacheRead: 2}, StartedAt: 1000, CompletedAt: 2500,
		}},
		Branches: transcript.Branches(all, path),
	})
	want := ` \- a branch leaves before the first node: 1 node, x0 to x0
system  s1
    be brief

--- turn t1  1970-01-01 00:00:01.000Z ---
user  u1
    1+2?
 \- a branch leaves here: 2 nodes, b1 to b2
assistant  a1
    (reasoning)
        hm
    -> add [c1] {"a":1}
    -> add {"a\n
tool results  r1
    <- add [c1] success
        3
        4
    <- add failure
        no
assistant  a2  stopped: output_limit
    3
--- end of turn t1: incomplete, provider output_limit, 2 attempts, 2 model calls, 1 tool call, 7 tokens in, 3 out, cache 2 read, 0 written, 1.5s ---

=== frame f2 (compaction), keeps what came from a2 on ===
plugin node  note  n1
    {"x":1}

--- turn t2  1970-01-01 00:00:01.000Z ---
user  u2
    again
    (attachment image/png, 4 bytes)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	path := []*projector.Node{node("a1", "", "", events.RoleAssistant, transcriptText("äöü end"),
		events.Part{Kind: events.PartToolCall, Tool: "add", Args: []byte(`{"a":1}`)})}
	opts := transcript.Options{Limit: 3, Args: 4, More: "--full shows all"}
	got := render(t, path, opts)
	want := "assistant  a1\n    ä [... 8 more bytes, --full shows all]\n    -> add {\"a\" [... 3 more bytes, --full shows all]\n"
	runtest.Equal(t, "got", got, want)
	opts.Full = true
	if got := render(t, path, opts); !strings.Contains(got, "äöü end\n") || !strings.Contains(got, "{\"a\":1}\n") {
		t.Errorf("got %q, want everything", got)
	}
}

// A model's text must not move the reader's cursor, nor break the transcript's own lines.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	path := []*projector.Node{node("a\n1", "", "", events.RoleAssistant, transcriptText("\x1b[2Jhi\r\u009b \xff"))}
	want := "assistant  a\\n1\n    \\u001b[2Jhi\\u000d\\u009b \\xff\n"
	runtest.Equal(t, "render", render(t, path, transcript.Options{}), want)
}

func TestColor(t *testing.T) {
	t.Parallel()
	path := []*projector.Node{node("u1", "", "", events.RoleUser, transcriptText("hi"))}
	want := "\x1b[36muser  u1\x1b[0m\n    hi\n"
	var out strings.Builder
	err := transcript.Render(&out, path, transcript.Options{Color: func(code string) error {
		out.WriteString("\x1b[" + code + "m")
		return nil
	}})
	if err != nil || out.String() != want {
		t.Errorf("got %q and %v, want %q", out.String(), err, want)
	}
}

func TestBodiesOutside(t *testing.T) {
	t.Parallel()
	ref := events.BlobRef{Digest: "0123456789abcdef", Size: 5}
	path := []*projector.Node{node("r1", "", "", events.RoleUser,
		events.Part{Kind: events.PartToolResult, Tool: "dump", Blob: ref},
		events.Part{Kind: events.PartToolCall, Tool: "add", Blob: ref})}
	none := render(t, path, transcript.Options{})
	found := render(t, path, transcript.Options{Blob: func(events.BlobRef) ([]byte, error) { return []byte("hello"), nil }})
	gone := render(t, path, transcript.Options{Blob: func(events.BlobRef) ([]byte, error) { return nil, errors.New("gone") }})
	for name, tc := range map[string][2]string{
		"none":  {none, "    <- dump success\n        (5 bytes, blob 0123456789ab)\n    -> add (5 bytes, blob 0123456789ab)\n"},
		"found": {found, "    <- dump success\n        hello\n    -> add hello\n"},
		"gone":  {gone, "        (5 bytes, blob 0123456789ab, cannot be read: gone)\n"},
	} {
		if !strings.Contains(tc[0], tc[1]) {
			t.Errorf("%s: got %q, want it to hold %q", name, tc[0], tc[1])
		}
	}
}

func TestBranches(t *testing.T) {
	t.Parallel()
	n := func(id, parent events.NodeID) *projector.Node { return &projector.Node{ID: id, Parent: parent} }
	all := []*projector.Node{n("a", ""), n("b", "a"), n("c", "b"), n("x", "a"), n("y", "x"), n("z", "x"), n("w", "a"), n("d", "c")}
	path := []*projector.Node{all[0], all[1], all[2], all[7]}
	want := map[events.NodeID][]transcript.Branch{"a": {{First: "x", Leaf: "z", Nodes: 3}, {First: "w", Leaf: "w", Nodes: 1}}}
	runtest.DeepEqual(t, "branches", transcript.Branches(all, path), want)
	runtest.DeepEqual(t, "branches", transcript.Branches(all, nil)[""], []transcript.Branch{{First: "a", Leaf: "d", Nodes: 8}})
}

// A live transcript is the same text as a complete one.
func TestPrinter(t *testing.T) {
	t.Parallel()
	path := []*projector.Node{node("u1", "", "t1", events.RoleUser, transcriptText("hi")), node("u2", "u1", "t2", events.RoleUser, transcriptText("ho"))}
	turns := []projector.TurnRecord{{ID: "t1", End: events.EndFinished, Attempts: 1}}
	var out strings.Builder
	p := transcript.NewPrinter(&out, transcript.Options{})
	p.Node(path[0])
	p.TurnEnded(&turns[0])
	p.Node(path[1])
	if want := render(t, path, transcript.Options{Turns: turns}); out.String() != want || p.Err() != nil {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteError(t *testing.T) {
	t.Parallel()
	if err := transcript.Render(full{}, []*projector.Node{node("u1", "", "t1", events.RoleUser)}, transcript.Options{}); err == nil {
		t.Error("got no error")
	}
}

// TestActs checks that each act appears once, between the nodes of its turn, also of a running turn.
func TestActs(t *testing.T) {
	t.Parallel()
	path := []*projector.Node{
		node("u1", "", "t1", events.RoleUser, transcriptText("1+2?")),
		node("a1", "u1", "t1", events.RoleAssistant, transcriptText("I ask")),
		node("r1", "a1", "t1", events.RoleUser, events.Part{Kind: events.PartToolResult, Tool: "add", Text: "3"}),
		node("u2", "r1", "t2", events.RoleUser, transcriptText("on")),
	}
	for i, n := range path {
		n.Seq = events.Seq(10 * (i + 1))
	}
	acts := map[events.TurnID][]transcript.Act{
		"t1": {{After: 5, Line: "before"}, {After: 20, Line: "question"}, {After: 29, Line: "answer"}, {After: 30, Line: "cancel"}},
		"t2": {{After: 40, Line: "open\x1b"}},
	}
	got := render(t, path, transcript.Options{
		Turns: []projector.TurnRecord{{ID: "t1", End: events.EndCancelled, Attempts: 1}},
		Acts:  func(id events.TurnID) []transcript.Act { return acts[id] },
	})
	want := `--- turn t1  1970-01-01 00:00:01.000Z ---
--- before
user  u1
    1+2?
assistant  a1
    I ask
--- question
--- answer
tool results  r1
    <- add success
        3
--- cancel
--- end of turn t1: cancelled, 0 model calls, 0 tool calls ---

--- turn t2  1970-01-01 00:00:01.000Z ---
user  u2
    on
--- open\u001b
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
