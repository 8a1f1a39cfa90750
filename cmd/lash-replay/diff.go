package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
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
	return `Compares two points of a session, two of its branches, or two sessions: all fields of their states, their turns, and the nodes of the
conversation. Lines with - are of A only, those with + of B only, those with ~ are of both and differ.

  lash-replay diff s1@12 @20            what happened in between
  lash-replay diff s1 s1 --leaf n4      a branch that was left, and the active one
  lash-replay diff s1 copy              a session and its copy

The exit code is 0 where they differ, too.`
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
	if targetB != "" && !e.source.named() {
		src, id, err = e.openTarget(ctx, targetB) // another archive, which has no end
	} else if targetB != "" {
		id = events.SessionID(targetB)
		if err = e.mustBeThere(ctx, src, id); err == nil {
			e.noteLost(ctx, src, id)
		}
	}
	var b []change
	if err == nil {
		b, err = c.side(ctx, e, src, id, pointB, c.ToLeaf)
	}
	if err != nil {
		return fmt.Errorf("second state: %w", err)
	}
	d := changes(a, b)
	if c.JSON {
		return e.writeJSON(d)
	}
	for _, one := range d {
		one.print(e, c.Full)
	}
	if len(d) == 0 {
		e.println("no difference")
	}
	return nil
}

// change is a thing by name, as JSON of the API. A or B is empty where it does not exist.
type change struct {
	Name string           `json:"name"`
	A    *eventjson.Value `json:"a,omitempty"`
	B    *eventjson.Value `json:"b,omitempty"`
}

// changes are the things that one side has, or that differ, those of A first.
func changes(a, b []change) []change {
	list, inB := []change{}, make(map[string]*eventjson.Value, len(b))
	for _, t := range b {
		inB[t.Name] = t.A
	}
	for _, t := range a {
		if other := inB[t.Name]; other == nil || other.String() != t.A.String() {
			list = append(list, change{t.Name, t.A, other})
		}
		delete(inB, t.Name)
	}
	for _, t := range b {
		if inB[t.Name] != nil {
			list = append(list, change{t.Name, nil, t.A})
		}
	}
	return list
}

// contextBytes is how much of equal text stands before a difference.
const contextBytes = 20

func (c *change) print(e *env, full bool) {
	switch {
	case c.A == nil:
		e.println("+", c.Name, c.B.String())
		return
	case c.B == nil:
		e.println("-", c.Name, c.A.String())
		return
	}
	a, b, from := c.A.String(), c.B.String(), 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	if from = max(0, from-contextBytes); !full && from > 0 {
		a, b = "..."+a[from:], "..."+b[from:]
	}
	if !full {
		a, b = events.Clip(a, lineBytes, "..."), events.Clip(b, lineBytes, "...")
	}
	e.printf("~ %s\n  - %s\n  + %s\n", c.Name, a, b)
}

// splitPoint divides TARGET@POINT. A file of the whole name is the target.
func splitPoint(text string) (target string, at program.Point) {
	if exists(text) {
		return text, ""
	}
	i := strings.LastIndexByte(text, '@')
	if i < 0 || strings.Contains(text, "://") { // a URL is a mistake, and its password may be before the @
		return text, ""
	}
	return text[:i], program.Point(text[i+1:])
}

// side has the fields of the state at a point, the turns that have ended, and the nodes of a path.
func (c *diffCmd) side(ctx context.Context, e *env, src source, id events.SessionID, at program.Point, leaf events.NodeID) ([]change, error) {
	src, err := e.cut(ctx, src, "@", at, id)
	if err != nil {
		return nil, fmt.Errorf("%w; lash-replay events lists sequences and events", err)
	}
	s, err := src.State(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := follow.Complete(ctx, src, s); err != nil {
		return nil, err
	}
	list := fieldsOf(s.Head)
	records, err := s.Records()
	for i := range records {
		list = append(list, change{Name: "turn " + string(records[i].ID), A: &eventjson.Value{V: records[i]}})
	}
	path, pathErr := s.Path()
	if leaf != "" {
		if path, pathErr = s.PathTo(leaf); pathErr == nil && len(path) == 0 {
			pathErr = fmt.Errorf("--leaf %s: there is no such node", leaf)
		}
	}
	for _, n := range path {
		content := *n
		content.Seq, content.At, content.Turn = 0, 0, "" // which a copy has otherwise
		list = append(list, change{Name: "node " + string(n.ID), A: &eventjson.Value{V: content}})
	}
	return list, cmp.Or(err, pathErr)
}

// fieldsOf are the fields of a state, but for the digests of its proof.
func fieldsOf(head projector.Head) (list []change) {
	v := reflect.ValueOf(head)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Proof" {
			list = append(list, change{Name: eventjson.Snake(name), A: &eventjson.Value{V: v.Field(i).Interface()}})
		}
	}
	return list
}
