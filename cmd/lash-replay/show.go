package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

type showCmd struct {
	Session string          `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	Leaf    events.NodeID   `placeholder:"NODE" help:"The path to this node instead of the active one."`
	Turn    []events.TurnID `placeholder:"TURN" help:"This turn only. Repeatable."`
	Last    int             `placeholder:"N" help:"The last N turns only."`
	Grep    string          `placeholder:"REGEXP" help:"The messages that match only, of each the lines that do. Without regard to case."`
	Full    bool            `help:"Shorten nothing."`
	pricesFlag
	JSON bool `name:"json" help:"Print one JSON object, with everything."`
}

// shownSession is the session of a show command.
type shownSession struct {
	*reading
	path     []*projector.Node
	shown    []*projector.Node // nodes of path that the flags select
	turns    []projector.TurnRecord
	branches map[events.NodeID][]transcript.Branch
	only     map[events.TurnID]bool // selected turns; nil: all
	grep     *regexp.Regexp         // nil: all
	prices   pricing
	costs    map[events.TurnID]micros // of the turns, made when the first is shown
}

// Run folds the history and shows the active path.
func (c *showCmd) Run(ctx context.Context, e *env) error {
	prices, err := c.load()
	if err != nil {
		return err
	}
	src, r, err := e.opened(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	view := &shownSession{reading: r, prices: prices}
	if err := c.view(view); err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(view.json())
	}
	return e.paged(func() error {
		if err := c.render(ctx, e, src, view); err != nil {
			return err
		}
		return e.showRedactions(ctx, src, r.state.Session)
	})
}

// view selects the nodes and the turns that are shown.
func (c *showCmd) view(v *shownSession) (err error) {
	s := v.state
	if v.turns, err = s.Records(); err != nil {
		return err
	}
	all, err := s.AllNodes()
	if err != nil {
		return err
	}
	if v.path, err = c.pathOf(s); err != nil {
		return err
	}
	v.branches = transcript.Branches(all, v.path)
	if c.Grep != "" {
		if v.grep, err = regexp.Compile("(?i)" + c.Grep); err != nil {
			return fmt.Errorf("--grep: %w", err)
		}
	}
	if err := c.selectTurns(v, all); err != nil {
		return err
	}
	for _, n := range v.path {
		if v.selected(n.Turn) && (v.grep == nil || matches(v.grep, n)) {
			v.shown = append(v.shown, n)
		}
	}
	return nil
}

// pathOf is the path that is shown: the active one, that of --leaf, or that of a turn of --turn on another branch.
func (c *showCmd) pathOf(s *projector.State) ([]*projector.Node, error) {
	if c.Leaf != "" {
		path, err := s.PathTo(c.Leaf)
		if err == nil && len(path) == 0 {
			err = fmt.Errorf("--leaf %s: there is no such node; show --json lists where branches leave", c.Leaf)
		}
		return path, err
	}
	path, err := s.Path()
	if err != nil || len(c.Turn) != 1 {
		return path, err
	}
	record, err := s.Record(c.Turn[0])
	if err != nil || record == nil || record.Leaf == "" {
		return path, err
	}
	if on, err := s.OnPath(record.Leaf); on || err != nil {
		return path, err
	}
	return s.PathTo(record.Leaf)
}

// selectTurns sets the turns of --turn and --last. The last turns are those of the path, and those without nodes.
func (c *showCmd) selectTurns(v *shownSession, all []*projector.Node) error {
	if c.Last < 0 {
		return fmt.Errorf("--last %d: want 1 or more turns", c.Last)
	}
	known := v.known(all)
	if c.Last > 0 {
		v.only = make(map[events.TurnID]bool)
		for _, id := range known[max(0, len(known)-c.Last):] {
			v.only[id] = true
		}
	}
	for _, id := range c.Turn {
		if _, requested := v.by[id]; !requested && len(v.state.Forked.Session) == 0 {
			return fmt.Errorf("--turn %s: session %s has no such turn; lash-replay show lists them", quoted(string(id)), v.state.Session)
		}
		if v.only == nil {
			v.only = make(map[events.TurnID]bool)
		}
		v.only[id] = true
	}
	return nil
}

// known are the turns of the path and those without nodes, in the order of their ends. The running turn is the last.
func (v *shownSession) known(all []*projector.Node) (list []events.TurnID) {
	elsewhere := make(map[events.TurnID]bool)
	for _, n := range all {
		elsewhere[n.Turn] = true
	}
	for _, n := range v.path {
		delete(elsewhere, n.Turn)
	}
	for i := range v.turns {
		if !elsewhere[v.turns[i].ID] {
			list = append(list, v.turns[i].ID)
		}
	}
	if t := v.state.Turn(); t != nil {
		list = append(list, t.ID)
	}
	return list
}

func (v *shownSession) selected(turn events.TurnID) bool { return v.only == nil || v.only[turn] }

// whole reports whether the flags select everything.
func (v *shownSession) whole() bool { return v.only == nil && v.grep == nil }

// matches reports whether a node has a text that matches.
func matches(grep *regexp.Regexp, n *projector.Node) bool {
	for i := range n.Message.Parts {
		p := &n.Message.Parts[i]
		if grep.MatchString(p.Text) || grep.MatchString(p.Tool) || grep.Match(p.Args) {
			return true
		}
	}
	return grep.Match(n.Body) || grep.MatchString(n.Type)
}

// records are the selected turns that have ended.
func (v *shownSession) records() []projector.TurnRecord {
	list := make([]projector.TurnRecord, 0, len(v.turns))
	for i := range v.turns {
		if v.selected(v.turns[i].ID) {
			list = append(list, v.turns[i])
		}
	}
	return list
}

func (c *showCmd) render(ctx context.Context, e *env, src source, v *shownSession) error {
	v.header(e)
	opts := c.options(ctx, e, src, v)
	if err := transcript.Render(e.Out, v.shown, opts); err != nil {
		return err
	}
	p := transcript.NewPrinter(e.Out, opts)
	v.footer(e, p)
	return p.Err()
}

func (v *shownSession) header(e *env) {
	s := v.state
	e.painted("1", fmt.Sprintf("session %s, %s, at sequence %d, %s, %s to %s",
		s.Session, listedState(s).Status, s.Seq, program.Number(s.Events, "event"), eventjson.Clock(s.CreatedAt), eventjson.Clock(s.UpdatedAt)))
	e.printf("\n")
	if config := configSummary(s.Config); config != "" {
		e.println(config)
	}
	if !s.Forked.IsZero() {
		e.printf("forked from %s at sequence %d\n", s.Forked.Session, s.Forked.Seq)
	}
	v.printOrigin(e)
	e.printf("\n")
}

// resultLines bounds the lines of a tool's result, which are most of a long conversation.
const resultLines = 8

func (c *showCmd) options(ctx context.Context, e *env, src source, v *shownSession) transcript.Options {
	opts := transcript.Options{
		Color: e.color, Full: c.Full, Lines: resultLines, More: "--full shows all",
		Frames: v.state.Frames, Turns: v.turns,
		Blob:  func(ref events.BlobRef) ([]byte, error) { return src.Blob(ctx, ref) },
		Actor: func(turn events.TurnID) string { return v.by[turn] }, Acts: v.actsIn,
		Head: v.headNote, Result: v.resultNote, End: v.endNote,
	}
	if v.whole() {
		opts.Branches = v.branches
	}
	if v.grep != nil {
		opts.Select, opts.Acts = v.matchingLines, nil
	}
	return opts
}

// requested names the actor that requested a turn without nodes.
func (v *shownSession) requested(turn events.TurnID) string { return "requested by " + v.by[turn] }

// footer prints what the path does not show: turns without nodes, and pending work.
func (v *shownSession) footer(e *env, p *transcript.Printer) {
	on := make(map[events.TurnID]bool)
	for _, n := range v.path {
		on[n.Turn] = true
	}
	for i := range v.turns {
		if id := v.turns[i].ID; !on[id] && v.selected(id) && v.grep == nil {
			e.println("not on this path: turn", joined(transcript.EndLine(&v.turns[i]), v.requested(id)))
			v.actsOf(p, id)
		}
	}
	if v.whole() {
		v.pending(e, p, on)
		v.printState(e)
	}
}

// pending prints the current frame, the running turn and what waits. on are the turns of the path.
func (v *shownSession) pending(e *env, p *transcript.Printer, on map[events.TurnID]bool) {
	s := v.state
	if frame := s.Frame(); len(s.Frames) > 1 {
		e.printf("current frame: %s, opened by %s\n", quoted(string(frame.ID)), quoted(frame.Reason))
	}
	if t := s.Turn(); t != nil {
		e.printf("turn %s runs: attempt %d, iteration %d, by %s\n", t.ID, t.Attempt, t.Iteration, t.Worker)
		if !on[t.ID] {
			v.actsOf(p, t.ID)
		}
		printWaits(e, t)
	}
	for i := range s.Queue {
		e.println("queued: turn", joined(string(s.Queue[i].ID), string(s.Queue[i].Busy), v.requested(s.Queue[i].ID)))
		v.actsOf(p, s.Queue[i].ID)
	}
	for i := range s.Scheduled {
		e.println("scheduled: turn", joined(string(s.Scheduled[i].ID), "at "+clock(s.Scheduled[i].At), string(s.Scheduled[i].Busy), v.requested(s.Scheduled[i].ID)))
	}
	for i := range s.Inputs {
		e.println("pending input:", s.Inputs[i].ID)
	}
}
