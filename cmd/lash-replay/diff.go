package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

type diffCmd struct {
	A      string        `arg:"" help:"SESSION, or SESSION@POINT, such as s1@12 or s1@2026-11-25T18:30:00Z; or an archive file, or FILE@POINT, when no source is given."`
	B      string        `arg:"" optional:"" help:"The same; @POINT alone is of the session of A. Defaults to the end of A."`
	Leaf   events.NodeID `placeholder:"NODE" help:"In A, the path to this node instead of the active one."`
	ToLeaf events.NodeID `placeholder:"NODE" help:"The same in B."`
	Full   bool          `help:"Shorten nothing."`
	JSON   bool          `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*diffCmd) Help() string {
	return `Compares two points of a session, two of its branches, or two sessions: configuration, messages and other nodes, tools, plugin states,
turns and usage. Lines with - are of A only, those with + of B only, those with ~ are of both and differ.

  lash-replay diff s1@12 @20            what happened in between
  lash-replay diff s1 s1 --leaf n4      a branch that was left, and the active one
  lash-replay diff s1 copy              a session and its copy

The exit code is 0 where they differ, too.`
}

// comparedState is one of the two compared states.
type comparedState struct {
	src   source
	state *projector.State
	path  []*projector.Node
}

func (s *comparedState) name() string {
	return fmt.Sprintf("%s at sequence %d", s.state.Session, s.state.Seq)
}

// Run compares the two states.
func (c *diffCmd) Run(ctx context.Context, e *env) error {
	if e.source.At != "" {
		return errors.New("--at: diff takes a point with each session: SESSION@POINT")
	}
	targetA, pointA := splitPoint(c.A)
	targetB, pointB := splitPoint(c.B)
	e.source.defaults(targetA, targetB)
	src, id, err := e.openTarget(ctx, targetA)
	if err != nil {
		return err
	}
	defer src.Close()
	a, err := c.side(ctx, e, src, id, pointA, c.Leaf)
	if err != nil {
		return fmt.Errorf("first state: %w", err)
	}
	srcB, idB := src, id
	if targetB != "" {
		if srcB, idB, err = e.second(ctx, src, targetB); err != nil {
			return fmt.Errorf("second state: %w", err)
		}
		defer srcB.Close()
	}
	b, err := c.side(ctx, e, srcB, idB, pointB, c.ToLeaf)
	if err != nil {
		return fmt.Errorf("second state: %w", err)
	}
	d, err := compare(a, b)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(d)
	}
	return e.paged(func() error { return d.print(ctx, e, c.Full) })
}

// splitPoint divides TARGET@POINT. A file of the whole name is the target.
func splitPoint(text string) (target string, at point.Point) {
	if _, err := os.Stat(text); err == nil && text != "" {
		return text, ""
	}
	i := strings.LastIndexByte(text, '@')
	if i < 0 || strings.Contains(text, "://") { // a URL is a mistake, and its password may be before the @
		return text, ""
	}
	return text[:i], point.Point(text[i+1:])
}

// second finds the session of another target: in the open source, or in an archive of its own.
func (e *env) second(ctx context.Context, open source, target string) (source, events.SessionID, error) {
	if e.source.count() == 0 {
		return e.openTarget(ctx, target)
	}
	if a, ok := open.(*archive); ok && a.session != events.SessionID(target) {
		return nil, "", errors.New("the archive of --file has one session: give two archives as arguments, without --file")
	}
	return shared{open}, events.SessionID(target), e.mustBeThere(ctx, open, events.SessionID(target))
}

// shared is a source that its first user closes.
type shared struct{ source }

// Close does nothing.
func (shared) Close() {}

func (c *diffCmd) side(ctx context.Context, e *env, src source, id events.SessionID, at point.Point, leaf events.NodeID) (*comparedState, error) {
	src, err := e.cut(ctx, src, "@", at, id)
	if err != nil {
		return nil, fmt.Errorf("%w; lash-replay events lists sequences and events", err)
	}
	r, err := read(ctx, src, id, nil)
	if err != nil {
		return nil, err
	}
	path, err := (&showCmd{Leaf: leaf}).pathOf(r.state)
	return &comparedState{src: src, state: r.state, path: path}, err
}
