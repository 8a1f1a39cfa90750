package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/lash-go/lash/events"
)

// Screen is a chat in a terminal.
type Screen struct {
	Talk    *Talk
	In, Out *os.File
	Session events.SessionID
	Joins   bool // the session exists; else the chat creates it
	Plain   bool // no colours
}

// Run runs the chat until the user leaves or ctx ends. It returns the session that the chat shows last: a fork is a
// new session.
func (s *Screen) Run(ctx context.Context) (events.SessionID, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newProgram(s.Talk, s.Session, s.Plain)
	if err := s.open(ctx, m); err != nil {
		return s.Session, err
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(&ahead{File: s.In}), tea.WithOutput(s.Out), tea.WithoutSignalHandler())
	m.driver = &driver{talk: s.Talk, ctx: ctx, send: p.Send}
	go m.driver.link()
	observing, stop := context.WithCancel(ctx)
	m.stop = stop
	go m.driver.pass(observing, 0, m.seen)
	_, err := p.Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil // a signal
	}
	return m.session, errors.Join(err, m.failed)
}

// open prints the session before the program draws, so that the text above the input scrolls as terminal output.
func (s *Screen) open(ctx context.Context, m *program) (err error) {
	if w, h, err := term.GetSize(s.Out.Fd()); err == nil {
		m.resize(w, h)
	}
	show := func(l Line) { _, _ = fmt.Fprintln(s.Out, strings.Join(m.rows(l), "\n")) }
	defer s.Talk.late(ctx, show)()
	m.view, m.seen, err = s.Talk.Open(ctx, s.Session, !s.Joins, Options{Live: true, Full: s.Talk.Full, Starts: s.Talk.Starts}, show)
	if err == nil {
		show(m.header())
	}
	return err
}

// driver executes the requests of a program, and sends it the results. Its goroutines end with ctx.
type driver struct {
	talk *Talk
	ctx  context.Context //nolint:containedctx // of one run, as the program's is
	send func(tea.Msg)
}

// Messages to the program.
type (
	joinedMsg struct {
		gen  int
		view *View
		seen <-chan observed
		ctx  context.Context //nolint:containedctx // of the observation
		stop context.CancelFunc
		list []Line
		err  error
	}
	seenMsg struct {
		gen int
		observed
	}
	didMsg struct {
		number int
		Outcome
	}
	linkMsg struct{ Line }
)

// join is a command of the program that opens a session. gen distinguishes its observations from those of an earlier
// session.
func (d *driver) join(id events.SessionID, gen int) tea.Cmd {
	return func() tea.Msg {
		var list []Line
		ctx, stop := context.WithCancel(d.ctx)
		view, seen, err := d.talk.Open(ctx, id, false, Options{Live: true, Full: d.talk.Full, Starts: d.talk.Starts}, func(l Line) { list = append(list, l) })
		return joinedMsg{gen, view, seen, ctx, stop, list, err}
	}
}

// pass sends observations to the program.
func (d *driver) pass(ctx context.Context, gen int, seen <-chan observed) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-seen:
			d.send(seenMsg{gen, o})
			if o.err != nil {
				return
			}
		}
	}
}

func (d *driver) link() {
	for {
		select {
		case <-d.ctx.Done():
			return
		case l := <-d.talk.Link.Said():
			d.send(linkMsg{l})
		}
	}
}

// do is a command of the program that executes an action on the session.
func (d *driver) do(number int, id events.SessionID, a Action) tea.Cmd {
	return func() tea.Msg { return didMsg{number, d.talk.Do(d.ctx, id, a)} }
}
