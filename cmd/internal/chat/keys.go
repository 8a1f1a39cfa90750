package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/lash-go/lash/events"
)

// key handles a key: first the chat's own keys, then those of the line editor.
func (m *program) key(msg tea.KeyPressMsg) (cmd tea.Cmd) {
	name := msg.String()
	warned := m.warned
	m.warned = false
	switch {
	case name == "ctrl+c":
		return m.interrupt(warned)
	case name == "ctrl+d" && m.input.Value() == "":
		m.leaving = true
		return nil
	case name == "ctrl+z":
		return tea.Suspend
	case name == "enter":
		return m.enter()
	case name == "up" && m.input.Line() == 0 && m.at > 0:
		m.recall(m.at - 1)
		return nil
	case name == "down" && m.input.Line() == m.input.LineCount()-1 && m.at < len(m.past):
		m.recall(m.at + 1)
		return nil
	}
	m.start()
	m.input, cmd = m.input.Update(msg)
	return cmd
}

// start records the question that the user sees when a line starts.
func (m *program) start() {
	if m.input.Value() == "" {
		m.pendingCall = m.question()
	}
}

// question is the call that waits for an answer now.
func (m *program) question() events.EffectID {
	if m.view == nil || m.view.Question() == nil {
		return ""
	}
	return m.view.Question().Effect
}

// interrupt cancels the running turn. Without a turn it clears the line. again: it leaves the chat.
func (m *program) interrupt(again bool) tea.Cmd {
	m.warned = true
	switch {
	case again:
		m.leaving = true
	case m.view != nil && m.view.Turn() != "":
		m.print(noted(Note, "cancelling the turn: ctrl-c again leaves, and the turn ends without you"))
		return m.act(Action{Verb: Cancel})
	case m.input.Value() != "":
		m.input.Reset()
	default:
		m.print(noted(Note, "ctrl-c again, or ctrl-d, leaves"))
	}
	return nil
}

func (m *program) enter() tea.Cmd {
	line := m.input.Value()
	a := Parse(line, m.pendingCall, m.question())
	if a.Verb == Answer {
		a.Session = m.view.Question().Session
	}
	m.input.Reset()
	if strings.TrimSpace(line) != "" {
		m.past = append(m.past, line)
	}
	m.at = len(m.past)
	return m.act(a)
}

// recall shows an earlier line of the user.
func (m *program) recall(at int) {
	m.at = at
	m.pendingCall = m.question()
	m.input.Reset()
	if at < len(m.past) {
		m.input.SetValue(m.past[at])
	}
}

// print queues lines, in order, for printing above the input.
func (m *program) print(list ...Line) {
	for _, l := range list {
		m.out = append(m.out, m.rows(l)...)
	}
}

// rows breaks a line into rows of the terminal. Only the first row of the chat's own lines begins at the margin.
func (m *program) rows(l Line) []string {
	if l.Kind == Hint {
		return []string{m.painted(Note, l.Text)}
	}
	first, rest := "", "  "
	if !l.Own() {
		first = rest
	}
	text := strings.ReplaceAll(l.Text, "\t", "    ")
	limit := max(m.width-3, 8)
	// Wrap lets dashes behind a word that fills the row go over the limit.
	list := strings.Split(ansi.Hardwrap(ansi.Wrap(text, limit, ""), limit, true), "\n")
	for i := range list {
		indent := rest
		if i == 0 {
			indent = first
		}
		list[i] = m.painted(l.Kind, indent+list[i])
	}
	return list
}

func (m *program) painted(kind Kind, text string) string {
	code := map[Kind]string{Said: "1;36", Partial: "2", Thought: "2", Call: "36", Result: "2", Question: "1;33", Note: "2", Problem: "31"}[kind]
	if m.plain || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// flush prints the queued rows, at most one screen, one print at a time: the program does not order two prints.
func (m *program) flush() tea.Cmd {
	switch {
	case m.printing || !m.drawn:
		return nil
	case len(m.out) == 0 && m.leaving:
		return tea.Quit
	case len(m.out) == 0:
		return nil
	}
	n := min(len(m.out), max(m.height-m.input.Height()-liveRows-3, 1))
	text := strings.Join(m.out[:n], "\n")
	if text == "" {
		text = " " // the program does not print an empty text
	}
	m.out, m.printing = m.out[n:], true
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}

// liveRows is the number of rows of the unfinished reply that are shown.
const liveRows = 6

func (m *program) View() tea.View {
	if m.leaving {
		return tea.NewView("")
	}
	var rows []string
	if m.live != "" {
		rows = m.rows(Line{Reply, m.live})
		rows = rows[max(len(rows)-liveRows, 0):]
	}
	if status := m.statusLine(); status != "" {
		rows = append(rows, m.painted(Note, ansi.Truncate(status, max(m.width-1, 1), "…")))
	}
	v := tea.NewView(strings.Join(append(rows, m.input.View()), "\n"))
	if v.Cursor = m.input.Cursor(); v.Cursor != nil {
		v.Cursor.Y += len(rows)
	}
	return v
}
