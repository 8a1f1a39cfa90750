package chat

import (
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestRowsFitTheTerminal breaks lines for terminals of any width. No row is too wide, and no text is lost. Text of others never
// begins at the margin, so it cannot imitate the chat.
func TestRowsFitTheTerminal(t *testing.T) {
	t.Parallel()
	checkRows(t, 13, Thought, "aaaaaaaaaa-")
	checkRows(t, 13, Reply, "aaaaaaaaaa------------------------")
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{Said, Reply, Thought, Call, Result, Question, Note, Problem}).Draw(t, "kind")
		text := rapid.StringOf(rapid.SampledFrom([]rune("abc  ?---é世👍"))).Draw(t, "text")
		checkRows(t, rapid.IntRange(0, 60).Draw(t, "width"), kind, text)
	})
}

func checkRows(t rapid.TB, width int, kind Kind, text string) {
	t.Helper()
	m := newProgram(&Talk{}, "s", true)
	m.resize(width, 24)
	rows := m.rows(Line{kind, text})
	for i, row := range rows {
		if (i > 0 || !(Line{Kind: kind}).Own()) && !strings.HasPrefix(row, "  ") {
			t.Fatalf("%q at width %d: row %q begins at the margin", text, m.width, row)
		}
		if w := ansi.StringWidth(row); w >= m.width && m.width > 12 {
			t.Fatalf("%q: row %q has %d cells of %d", text, row, w, m.width)
		}
	}
	blank := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	if got := blank(strings.Join(rows, "")); got != blank(text) {
		t.Fatalf("got %q, want all of %q", got, text)
	}
}

// asking is a program on a session in which a call waits for an approval.
func asking(t *testing.T) *program {
	t.Helper()
	m := newProgram(&Talk{}, "s", true)
	m.driver, m.drawn = &driver{talk: m.talk}, true
	m.view = running(t, Options{Live: true})
	see(t, m, events.Of("t1", &events.ModelReplied{Parts: []events.Part{{Kind: events.PartToolCall, Call: "c", Tool: "add", Args: []byte("{}")}}, Stop: events.StopToolUse}),
		events.Of("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "add", Args: []byte(`{"x":1}`), Plugin: "gate", Question: "Let it run?"}))
	return m
}

func see(t *testing.T, m *program, list ...events.Event) {
	t.Helper()
	m.Update(seenMsg{0, observed{Observed: committed(m.view, list...)}})
	if m.failed != nil {
		t.Fatal(m.failed)
	}
}

func press(m *program, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		switch k {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "up":
			msg = tea.KeyPressMsg{Code: tea.KeyUp}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		case "ctrl+j":
			msg = tea.KeyPressMsg{Code: 'j', Mod: tea.ModCtrl}
		default:
			msg.Code = []rune(k)[0]
		}
		m.Update(msg)
	}
}

// asked are the actions in progress.
func asked(m *program) (list []Action) {
	for n := 1; n <= m.number; n++ {
		if a, ok := m.doing[n]; ok {
			a.Turn = ""
			list = append(list, a)
		}
	}
	return list
}

// TestAnswerElsewhere: another user answers a question while this user types y. The question disappears, and the y
// goes neither to the next question nor to the model.
func TestAnswerElsewhere(t *testing.T) {
	t.Parallel()
	m := asking(t)
	runtest.Contains(t, "content", m.View().Content, "waiting for an approval of add")
	press(m, "y")
	see(t, m, events.Of("t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "bob"}))
	if strings.Contains(m.View().Content, "approval") {
		t.Errorf("got %q, want the question gone", m.View().Content)
	}
	press(m, "enter")
	if got := asked(m); len(got) > 0 {
		t.Errorf("got %+v, want nothing asked for", got)
	}
	again := asking(t)
	press(again, "n", " ", "i", "t", "enter")
	if want := []Action{{Verb: Answer, Session: "s", Effect: "t1/0/0", Text: "it"}}; !slices.Equal(asked(again), want) {
		t.Errorf("got %+v, want %+v", asked(again), want)
	}
}

// TestKeys covers the history of lines, lines of several rows, and ctrl-c.
func TestKeys(t *testing.T) {
	t.Parallel()
	m := asking(t)
	press(m, "a", "enter", "b", "ctrl+j", "c", "enter", "d", "up", "up")
	if got := m.input.Value(); got != "b\nc" { // the up key first moves within the line
		t.Errorf("up: got %q", got)
	}
	press(m, "up", "up")
	if got := m.input.Value(); got != "a" {
		t.Errorf("up again: got %q", got)
	}
	press(m, "down", "down", "down")
	runtest.Equal(t, "down", m.input.Value(), "")
	press(m, "ctrl+c")
	if want := []Action{{Verb: Say, Text: "a"}, {Verb: Say, Text: "b\nc"}, {Verb: Cancel}}; !slices.Equal(asked(m), want) || m.leaving {
		t.Errorf("got %+v, leaving %v, want %+v", asked(m), m.leaving, want)
	}
	press(m, "ctrl+c")
	if !m.leaving {
		t.Error("ctrl-c twice: stays")
	}
	idle := newProgram(&Talk{}, "s", true)
	press(idle, "x", "ctrl+c")
	if idle.leaving || idle.input.Value() != "" {
		t.Errorf("ctrl-c: got %q, leaving %v, want the line gone", idle.input.Value(), idle.leaving)
	}
	press(idle, "x", "ctrl+c", "ctrl+c")
	if !idle.leaving {
		t.Error("ctrl-c twice without a turn: stays")
	}
}

// TestFailedPromptStays returns the typed text to the input where the request fails.
func TestFailedPromptStays(t *testing.T) {
	t.Parallel()
	m := asking(t)
	m.Update(didMsg{1, Outcome{Action: Action{Verb: Say, Text: "hello"}, Err: m.talk.Explain(events.ErrNoSession, "s")}})
	if got := m.input.Value(); got != "hello" || !strings.Contains(strings.Join(m.out, "\n"), "lash-replay ls lists what there is") && !m.printing {
		t.Errorf("got %q and %q", got, m.out)
	}
}

// TestResize narrows and widens the window. New lines and the live part fit its width.
func TestResize(t *testing.T) {
	t.Parallel()
	m := asking(t)
	see(t, m, events.Of("t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "bob"}),
		events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{{Text: "3"}}}))
	long := strings.Repeat("word ", 40)
	for n, width := range []int{30, 90} {
		m.Update(printedMsg{})
		m.out = nil
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		m.Update(seenMsg{0, observed{Observed: api.Observed{Delta: &api.Delta{Turn: "t1", Iteration: 1, Attempt: 1, N: int64(n), Kind: events.PartText, Text: long}}}})
		m.Update(printedMsg{})
		rows := strings.Split(m.View().Content, "\n")
		if !strings.Contains(m.View().Content, "  word word") {
			t.Errorf("width %d: got %q, want the reply so far", width, rows)
		}
		for _, row := range rows {
			if w := ansi.StringWidth(row); w > width {
				t.Errorf("width %d: row %q has %d cells", width, row, w)
			}
		}
	}
}

// TestUnknownSize shows a chat in a terminal that reports 0 rows and columns.
func TestUnknownSize(t *testing.T) {
	t.Parallel()
	m := asking(t)
	m.Update(tea.WindowSizeMsg{})
	if m.width != 80 || m.height != 24 {
		t.Errorf("size: got %d by %d, want 80 by 24", m.width, m.height)
	}
	m.Update(tea.WindowSizeMsg{Width: 3, Height: 2})
	if m.width != 10 || m.height != 4 {
		t.Errorf("small size: got %d by %d, want 10 by 4", m.width, m.height)
	}
}
