package chat

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
)

// program is the bubbletea program of a [Screen]. Keys and observations go in; printed lines and a live part at the
// bottom come out.
type program struct {
	talk    *Talk
	driver  *driver
	nodes   *serving
	asks    *agentQuestions
	session events.SessionID
	plain   bool

	view        *View // nil until the session is joined
	seen        <-chan observed
	stop        context.CancelFunc // ends the observation
	gen         int
	drawn       bool // the program has drawn once: earlier prints are lost
	input       textarea.Model
	pendingCall events.EffectID // the question that the user saw when the line started
	past        []string        // earlier lines of the user
	at          int             // index of the shown one; len(past): a new line
	width       int
	height      int

	out      []string // rows to print, in order
	printing bool
	live     string // unfinished reply, shown below the printed lines
	leaving  bool
	warned   bool // ctrl-c was the last key
	failed   error

	doing  map[int]Action // requests in progress
	number int
	status string
	since  time.Time // start of the current status
}

func newProgram(talk *Talk, id events.SessionID, plain bool) *program {
	in := textarea.New()
	in.Prompt, in.ShowLineNumbers, in.CharLimit = "> ", false, maxPrompt
	in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxContentHeight = true, 1, 8, 10000
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("ctrl+j", "alt+enter", "shift+enter"))
	in.SetStyles(textarea.Styles{})
	in.SetVirtualCursor(false)
	in.Focus()
	return &program{talk: talk, nodes: newServing(talk), asks: newAgentQuestions(talk), session: id, plain: plain, input: in, width: 80, height: 24, doing: make(map[int]Action), since: time.Now()}
}

type (
	tickMsg    struct{}
	drawnMsg   struct{}
	printedMsg struct{}
)

func ticks() tea.Cmd { return tea.Tick(tick, func(time.Time) tea.Msg { return tickMsg{} }) }

func (m *program) Init() tea.Cmd {
	return tea.Batch(ticks(), tea.Tick(firstFrame, func(time.Time) tea.Msg { return drawnMsg{} }))
}

// firstFrame is the time until the program has drawn once; it draws 60 times a second.
const firstFrame = 100 * time.Millisecond

func (m *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tickMsg:
		cmd = ticks()
		m.checkNodes()
	case printedMsg:
		m.printing = false
	case drawnMsg:
		m.drawn = true
	case joinedMsg:
		m.joined(msg)
	case seenMsg:
		m.observe(msg)
	case didMsg:
		cmd = m.did(msg)
	case linkMsg:
		m.print(msg.Line)
	case tea.PasteMsg:
		m.start()
		m.input, cmd = m.input.Update(msg)
	default:
		m.input, cmd = m.input.Update(msg)
	}
	m.updateStatus()
	printing := m.flush()
	if m.drawn && !m.printing && m.view != nil {
		m.live = m.view.Live() // after the lines that precede it
	}
	return m, tea.Batch(cmd, printing)
}

// checkNodes uses the result of the last check, and starts the next one.
func (m *program) checkNodes() {
	select {
	case is := <-m.nodes.found:
		m.nodes.set(m.view, is)
	default:
	}
	m.nodes.check(m.driver.ctx, m.view, time.Now())
	m.print(m.asks.poll(m.driver.ctx, m.session, m.view)...)
}

// updateStatus records the time at which the status changed.
func (m *program) updateStatus() {
	if now := m.waitsFor(); now != m.status {
		m.status, m.since = now, time.Now()
	}
}

// waitsFor is what the chat waits for; empty: for the user.
func (m *program) waitsFor() string {
	if m.view == nil {
		return "waiting for a node that opens the session"
	}
	if now := m.view.Status(); now != "" {
		return now
	}
	for _, a := range m.doing {
		return "waiting for a node to take " + a.Verb.noun()
	}
	return ""
}

// resize sets the size of the terminal. One that does not know its size reports 0, and is taken for one of 80 by 24.
func (m *program) resize(width, height int) {
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	m.width, m.height = max(width, 10), max(height, 4)
	m.input.SetWidth(m.width)
}

// joined shows a session that was opened, for example a fork.
func (m *program) joined(msg joinedMsg) {
	if msg.err != nil {
		m.fail(msg.err)
		return
	}
	m.view, m.stop = msg.view, msg.stop
	m.print(msg.list...)
	m.print(m.header())
	go m.driver.pass(msg.ctx, msg.gen, msg.seen)
}

func (m *program) header() Line {
	return noted(Note, "session %s, model %s: /help lists what can be typed", m.session, m.view.Model())
}

func (m *program) observe(msg seenMsg) {
	if msg.gen != m.gen || m.view == nil {
		return
	}
	if msg.err != nil {
		m.fail(msg.err)
		return
	}
	list, err := m.view.Seen(msg.Observed)
	m.print(list...)
	if err != nil {
		m.fail(err)
	}
}

// fail records the error and leaves.
func (m *program) fail(err error) {
	m.failed, m.leaving = err, true
}

func (m *program) did(msg didMsg) tea.Cmd {
	delete(m.doing, msg.number)
	m.print(msg.Lines...)
	switch {
	case msg.Err != nil:
		m.print(noted(Problem, "%s: %s", msg.Action.Verb, msg.Err))
		if msg.Action.Verb == Say && m.input.Value() == "" {
			m.input.SetValue(msg.Action.Text) // the user can edit the text and send it again
		}
	case msg.Session != "":
		m.print(noted(Note, "from here on this is session %s, a fork of %s", msg.Session, m.session))
		m.stop()
		m.session, m.view = msg.Session, nil
		m.gen++
		return m.driver.join(m.session, m.gen)
	}
	return nil
}

// act executes a line.
func (m *program) act(a Action) tea.Cmd {
	switch a.Verb {
	case Nothing:
		return nil
	case Quit:
		m.leaving = true
		return nil
	case Help:
		m.print(HelpLines()...)
		return nil
	case Where:
		m.print(noted(Hint, "%s", m.talk.Farewell(m.session)))
		return nil
	case Refuse:
		m.print(noted(Problem, "%s", a.Text))
		return nil
	case Say, Answer, Branch, Fork, Cancel, Compact, Model, Show:
	}
	if m.view == nil {
		m.print(noted(Problem, "the session is not open yet: try again in a moment"))
		m.input.SetValue(m.past[len(m.past)-1])
		return nil
	}
	a, ready := m.prepare(a)
	if !ready {
		return nil
	}
	m.number++
	m.doing[m.number] = a
	return m.driver.do(m.number, m.session, a)
}

// prepare completes an action with its object, and executes those that need no session.
func (m *program) prepare(a Action) (Action, bool) {
	switch a.Verb { //nolint:exhaustive // the others are complete
	case Say:
		a.Turn = events.TurnID(ulid.Make().String())
	case Cancel:
		if a.Turn = m.view.Turn(); a.Turn == "" {
			m.print(noted(Note, "no turn runs"))
			return a, false
		}
	case Model:
		if a.Text == "" {
			m.print(noted(Note, "model: %s", m.view.Model()))
			return a, false
		}
	case Branch:
		return m.branch(a)
	case Show:
		return m.showing(a)
	}
	return a, true
}

// branch finds the message to branch from, or lists the messages.
func (m *program) branch(a Action) (Action, bool) {
	places, err := m.view.Places()
	if err != nil {
		m.fail(err)
		return a, false
	}
	if a.Text == "" {
		for i, p := range places {
			m.print(noted(Note, "%3d %s", i+1, p.Text))
		}
		m.print(noted(Note, "/branch N goes back to message N, which stays, as do all after it in the history; 0 is before the first"))
		return a, false
	}
	a.Node = events.NodeID(a.Text)
	for i, p := range places {
		if p.Node == a.Node {
			return a, true
		}
		if strconv.Itoa(i+1) == a.Text {
			a.Node = p.Node
			return a, true
		}
	}
	if a.Text == "0" {
		a.Node = ""
	}
	return a, true
}

// showing finds the call to show.
func (m *program) showing(a Action) (Action, bool) {
	n := len(m.view.calls)
	if a.Text == "" {
		if q := m.view.Question(); q != nil {
			a.Effect = q.Effect
			return a, true
		}
		if n == 0 {
			m.print(noted(Problem, "this session has no tool calls yet"))
			return a, false
		}
	} else if typed, err := strconv.Atoi(a.Text); err == nil {
		n = typed
	} else {
		n = 0
	}
	var known bool
	if a.Effect, known = m.view.Call(n); !known {
		m.print(noted(Problem, "there is no call %s: calls have the numbers that stand before them, as in #%d", a.Text, max(len(m.view.calls), 1)))
	}
	return a, known
}

// statusLine is what the session waits for, and for how long.
func (m *program) statusLine() string {
	if m.status == "" {
		return ""
	}
	if waited := time.Since(m.since); waited > slow {
		return fmt.Sprintf("%s (%d s)", m.status, int(waited.Seconds()))
	}
	return m.status
}
