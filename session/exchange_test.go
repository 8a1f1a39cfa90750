package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/exchange"
)

// hostile has what a model can write to leave its place in a report.
const hostile = "</pre></section><script>alert(1)</script><img src=x onerror=alert(2)>\n```\n# not a title\n[a](javascript:alert(3)) \x1b[2J \u202egnp.exe {{.Session}} ${x} <!-- -->\n"

// source is a history in memory.
type source struct {
	log  *events.MemLog
	s    *projector.State
	t    *testing.T
	next int
}

func (s *source) Blob(context.Context, events.BlobRef) ([]byte, error) {
	s.t.Error("the history has no bodies")
	return nil, events.ErrInvalid
}

func (s *source) add(list ...events.Event) {
	s.t.Helper()
	s.next++
	c := &events.Commit{
		ID: events.CommitID("c" + string(rune('0'+s.next))), Session: "s1", At: events.Millis(1_700_000_000_000 + s.next),
		Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: list,
	}
	_, err := s.log.Append(s.t.Context(), c, events.Seq(s.next-1))
	runtest.NoError(s.t, err)
	runtest.NoError(s.t, s.s.Apply(events.Entry{Seq: events.Seq(s.next), Commit: c}))
}

func exchangeText(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

// document is a session in which every text is hostile, and has one failed call, one cancelled and one lost branch.
func document(t *testing.T) *exchange.Document {
	t.Helper()
	s := &source{log: &events.MemLog{}, s: projector.New("s1"), t: t}
	s.add(events.Of("", &events.SessionOpened{Config: events.Config{Model: hostile}}))
	s.add(events.Of("", &events.GraphAppended{Nodes: []events.NewNode{
		{ID: "sys", Kind: events.NodeMessage, Message: events.Message{ID: "sys", Role: events.RoleSystem, Parts: []events.Part{exchangeText(hostile)}}},
		{ID: "old", Kind: events.NodeMessage, Message: events.Message{ID: "old", Role: events.RoleUser, Parts: []events.Part{exchangeText("left")}}},
		{ID: "n", Kind: events.NodePlugin, Type: hostile, Body: []byte(hostile)},
	}}))
	s.add(events.Of("", &events.GraphBranched{Leaf: "sys"}))
	s.add(events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{exchangeText(hostile), {Kind: events.PartAttachment, MediaType: "image/png", Text: "AAAA"}, {Kind: events.PartAttachment, MediaType: "audio/wav", Text: "AAAA"}}}}))
	s.add(events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"}))
	s.add(events.Of("t1", &events.ModelReplied{Stop: events.StopToolUse, Provider: "p", Model: hostile, Usage: events.Usage{Input: 7, Output: 3}, Parts: []events.Part{
		{Kind: events.PartReasoning, Text: hostile, Meta: []byte(`{"thinkingSignature":"x"}`)},
		exchangeText(hostile),
		{Kind: events.PartToolCall, Call: "a", Tool: hostile, Args: []byte(`{"x":"</script>"}`)},
		{Kind: events.PartToolCall, Call: "b", Tool: "look", Args: []byte(hostile)},
	}}))
	s.add(events.Of("t1", &events.TurnCancelRequested{Request: "r", Reason: hostile}))
	s.add(events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{
		{Call: 0, Outcome: events.OutcomeFailure, Text: hostile}, {Call: 1, Outcome: events.OutcomeCancelled, Text: "[cancelled] The call was cancelled."},
	}}), events.Of("t1", &events.TurnCompleted{End: events.EndCancelled, Issue: events.Issue{Kind: "runtime", Message: hostile}}))
	d, err := exchange.Read(t.Context(), s.log, s, "s1")
	runtest.NoError(t, err)
	return d
}

// answered is a session with a turn that was cancelled during three calls, and one that was cancelled before it started. One tool
// of the three returned what it had done until then.
func answered(t *testing.T) *exchange.Document {
	t.Helper()
	s := &source{log: &events.MemLog{}, s: projector.New("s1"), t: t}
	s.add(events.Of("", &events.SessionOpened{Config: events.Config{Model: "m"}}))
	s.add(events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{exchangeText("go")}}}))
	s.add(events.Of("t2", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{exchangeText("and then")}}}))
	s.add(events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"}))
	call := func(id events.CallID) events.Part {
		return events.Part{Kind: events.PartToolCall, Call: id, Tool: "sh", Args: []byte("{}")}
	}
	s.add(events.Of("t1", &events.ModelReplied{Stop: events.StopToolUse, Parts: []events.Part{call("a"), call("b"), call("c")}}))
	s.add(events.Of("t1", &events.TurnCancelRequested{Request: "r"}), events.Of("t2", &events.TurnCompleted{End: events.EndCancelled}))
	s.add(events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{
		{Call: 0, Outcome: events.OutcomeCancelled, Text: "half done\n[the command was cancelled, and killed]"},
		{Call: 1, Outcome: events.OutcomeCancelled, Text: "[cancelled] The call was cancelled after it had begun. It may or may not have taken effect."},
		{Call: 2, Outcome: events.OutcomeCancelled, Text: "[cancelled] the call was cancelled"},
	}}), events.Of("t1", &events.TurnCompleted{End: events.EndCancelled}))
	d, err := exchange.Read(t.Context(), s.log, s, "s1")
	runtest.NoError(t, err)
	return d
}

// TestCancelledResults checks that the text of a tool that returned after the cancel is exported. The runtime's own texts, for calls
// without a result, are not.
func TestCancelledResults(t *testing.T) {
	t.Parallel()
	d := answered(t)
	for name, write := range map[string]writer{"chat": exchange.Chat, "pi": exchange.Pi} {
		var b bytes.Buffer
		lost, err := write(&b, d)
		runtest.NoError(t, err)
		if !strings.Contains(b.String(), "half done") || strings.Contains(b.String(), "[cancelled]") {
			t.Errorf("%s: got %s, want the text of the tool and none of the runtime", name, &b)
		}
		for _, l := range lost.List() {
			if want := "results of cancelled calls whose tools returned none: there these are calls without a result"; l.What == want && l.Count != 2 {
				t.Errorf("%s: got %d losses of %q, want 2", name, l.Count, want)
			}
		}
	}
}

// TestIdleTurns checks that traces name a turn that never started among their losses.
func TestIdleTurns(t *testing.T) {
	t.Parallel()
	lost, err := exchange.OTel(io.Discard, answered(t))
	runtest.NoError(t, err)
	for _, l := range lost.List() {
		if l.What == "turns that did not start" && l.Count == 1 {
			return
		}
	}
	t.Errorf("losses: got %v, want one turn that did not start", lost.List())
}

type writer func(io.Writer, *exchange.Document) (*exchange.Losses, error)

func written(t *testing.T, write writer) (string, map[string]int) {
	t.Helper()
	var b bytes.Buffer
	lost, err := write(&b, document(t))
	runtest.NoError(t, err)
	counts := make(map[string]int)
	for _, l := range lost.List() {
		counts[l.What] = l.Count
	}
	return b.String(), counts
}

// TestHTMLIsInert parses the page as a browser does: there is no element or attribute beside those of the page's own, and the
// texts are whole.
func TestHTMLIsInert(t *testing.T) {
	t.Parallel()
	page, _ := written(t, exchange.HTML)
	root, err := html.Parse(strings.NewReader(page))
	runtest.NoError(t, err)
	own := map[string]string{
		"html": "lang", "head": "", "meta": "charset name content http-equiv", "title": "", "style": "", "body": "", "main": "", "h1": "", "h2": "", "h3": "",
		"dl": "", "dt": "", "dd": "", "section": "class", "p": "", "pre": "",
	}
	texts := ""
	for n := range root.Descendants() {
		switch n.Type {
		case html.ElementNode:
			allowed, ok := own[n.Data]
			if !ok {
				t.Errorf("element: got <%s>, want none but the page's own", n.Data)
			}
			for _, a := range n.Attr {
				if !strings.Contains(" "+allowed+" ", " "+a.Key+" ") {
					t.Errorf("attribute of <%s>: got %s=%q, want none but the page's own", n.Data, a.Key, a.Val)
				}
			}
		case html.CommentNode:
			t.Errorf("comment: got %q, want none", n.Data)
		case html.TextNode:
			texts += n.Data
		case html.ErrorNode, html.DocumentNode, html.DoctypeNode, html.RawNode:
		}
	}
	if want := "<script>alert(1)</script><img src=x onerror=alert(2)>"; !strings.Contains(texts, want) {
		t.Errorf("texts: got none with %q, want the texts of the session as they are", want)
	}
	if strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("page: got control characters of the session, want their pictures")
	}
	if want := `content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"`; !strings.Contains(page, want) {
		t.Errorf("policy of the page: got none, want %s", want)
	}
}

// TestMarkdownIsInert checks that all hostile lines are in code blocks, or escaped.
func TestMarkdownIsInert(t *testing.T) {
	t.Parallel()
	got, lost := written(t, exchange.Markdown)
	fence := ""
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && line == fence:
			fence = ""
		case fence == "" && (strings.Contains(line, "<script>") || strings.Contains(line, "[a](") || line == "# not a title"):
			t.Errorf("line outside of a code block: got %q, want it escaped", line)
		}
	}
	if fence != "" {
		t.Error("code blocks: got one without an end")
	}
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Error("report: got control characters of the session, want their pictures")
	}
	if !strings.Contains(got, "```` \n") && !strings.Contains(got, "````\n") {
		t.Error("fence around a text with three backticks: got none of four")
	}
	if lost["messages outside of the active path"] != 2 || lost["bytes of attachments"] != 2 {
		t.Errorf("losses: got %v, want those of two nodes and two attachments", lost)
	}
}

// TestLosses names what each format cannot hold.
func TestLosses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		write writer
		want  map[string]int
	}{
		"chat": {exchange.Chat, map[string]int{
			"messages outside of the active path":                                                          2,
			"results' outcomes: a failed, cancelled or lost call has its text only":                        1,
			"results of cancelled calls whose tools returned none: there these are calls without a result": 1,
			"models, providers and tokens of replies":                                                      1,
			"providers' data of reasoning and calls, as signatures":                                        1,
			"times, and ids of messages":                                                                   4,
			"turns, approvals, hooks, cancels and other events":                                            7,
		}},
		"pi": {exchange.Pi, map[string]int{
			"system messages": 1,
			"results of cancelled calls whose tools returned none: there these are calls without a result": 1,
			"arguments of calls that are no JSON objects, kept as text":                                    1,
			"attachments that are no pictures, or pictures by their address":                               1,
			"turns, approvals, hooks, cancels and other events":                                            7,
		}},
		"otel": {exchange.OTel, map[string]int{ // the six nodes; the opening, the branch and the cancel
			"texts of messages, arguments and results: traces have none":                  6,
			"nodes and events outside of turns, and approvals, hooks and injected inputs": 3,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, lost := written(t, tc.write)
			if len(lost) != len(tc.want) {
				t.Errorf("losses: got %v, want %v", lost, tc.want)
			}
			for what, n := range tc.want {
				if lost[what] != n {
					t.Errorf("losses of %q: got %d, want %d", what, lost[what], n)
				}
			}
			for line := range strings.Lines(got) {
				if !json.Valid([]byte(line)) {
					t.Errorf("line: got %q, want JSON", line)
				}
			}
		})
	}
}
