package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

// comparison is the output of diff with --json.
type comparison struct {
	A      sideJSON  `json:"a"`
	B      sideJSON  `json:"b"`
	Equal  bool      `json:"equal"`
	Common int       `json:"common_nodes"` // on both paths, with the same content
	OnlyA  []nodeOf  `json:"only_in_a"`
	OnlyB  []nodeOf  `json:"only_in_b"`
	Config []change  `json:"config"`
	Tools  []change  `json:"tools"` // the catalogue, tool sources and overlay
	Plugin []change  `json:"plugins"`
	Turns  []change  `json:"turns"`
	Usage  []charged `json:"usage"` // B minus A
	a, b   *comparedState
}

type sideJSON struct {
	Session events.SessionID `json:"session"`
	Seq     events.Seq       `json:"seq"`
	Leaf    events.NodeID    `json:"leaf"`
	Frame   events.FrameID   `json:"frame"`
}

// nodeOf is a node that one path has.
type nodeOf struct {
	Node events.NodeID   `json:"node"`
	Turn events.TurnID   `json:"turn,omitempty"`
	Kind events.NodeKind `json:"kind"`
	What eventjson.Value `json:"content"` // the message, or the node
	node *projector.Node
}

// change is a thing by name. A or B is empty where it does not exist.
type change struct {
	Name string `json:"name"`
	A    string `json:"a,omitempty"`
	B    string `json:"b,omitempty"`
}

// charged is a difference in usage.
type charged struct {
	Source string          `json:"source"`
	Model  string          `json:"model"`
	Usage  eventjson.Value `json:"usage"`
	usage  events.Usage
}

func compare(a, b *comparedState) (*comparison, error) {
	d := &comparison{A: a.json(), B: b.json(), OnlyA: []nodeOf{}, OnlyB: []nodeOf{}, a: a, b: b}
	d.nodes()
	d.Config = changes(configOf(a.state), configOf(b.state))
	d.Tools = changes(toolsOf(a.state), toolsOf(b.state))
	d.Plugin = changes(pluginsOf(a.state), pluginsOf(b.state))
	turnsA, errA := turnsOf(a.state)
	turnsB, errB := turnsOf(b.state)
	if err := cmp.Or(errA, errB); err != nil {
		return nil, err
	}
	d.Turns = changes(turnsA, turnsB)
	d.usage()
	d.Equal = len(d.OnlyA)+len(d.OnlyB)+len(d.Config)+len(d.Tools)+len(d.Plugin)+len(d.Turns)+len(d.Usage) == 0
	return d, nil
}

func (s *comparedState) json() sideJSON {
	return sideJSON{Session: s.state.Session, Seq: s.state.Seq, Leaf: s.state.Leaf, Frame: s.state.Frame().ID}
}

// nodes divides the two paths into common nodes and those of one side. Nodes are the same with the same id and content.
func (d *comparison) nodes() {
	inB := make(map[events.NodeID]*projector.Node, len(d.b.path))
	for _, n := range d.b.path {
		inB[n.ID] = n
	}
	common := make(map[events.NodeID]bool)
	for _, n := range d.a.path {
		if other := inB[n.ID]; other != nil && sameNode(n, other) {
			common[n.ID] = true
		} else {
			d.OnlyA = append(d.OnlyA, ofNode(n))
		}
	}
	for _, n := range d.b.path {
		if !common[n.ID] {
			d.OnlyB = append(d.OnlyB, ofNode(n))
		}
	}
	d.Common = len(common)
}

func sameNode(a, b *projector.Node) bool {
	return a.Kind == b.Kind && a.Type == b.Type && bytes.Equal(a.Body, b.Body) && a.Blob == b.Blob && reflect.DeepEqual(a.Message, b.Message)
}

func ofNode(n *projector.Node) nodeOf {
	out := nodeOf{Node: n.ID, Turn: n.Turn, Kind: n.Kind, What: eventjson.Value{V: n.Message}, node: n}
	if n.Kind != events.NodeMessage {
		out.What = eventjson.Value{V: n}
	}
	return out
}

// things are texts by name, in order.
type things []change

func (t *things) add(name, text string) { *t = append(*t, change{Name: name, A: text}) }

// changes are the things that one side has, or that differ.
func changes(a, b things) []change {
	list := []change{}
	inB := make(map[string]string, len(b))
	for _, t := range b {
		inB[t.Name] = t.A
	}
	seen := make(map[string]bool, len(a))
	for _, t := range a {
		seen[t.Name] = true
		if other, ok := inB[t.Name]; !ok || other != t.A {
			list = append(list, change{Name: t.Name, A: t.A, B: other})
		}
	}
	for _, t := range b {
		if !seen[t.Name] {
			list = append(list, change{Name: t.Name, B: t.A})
		}
	}
	return list
}

func configOf(s *projector.State) (list things) {
	list.add("config", eventjson.Value{V: s.Config}.String())
	list.add("status", string(s.Status))
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		list.add("label "+name, quoted(s.Labels[name]))
	}
	for i := range s.Frames[min(1, len(s.Frames)):] {
		f := &s.Frames[i+1]
		list.add("frame "+string(f.ID), joined(quoted(f.Reason), prefixed("keeps what came from ", string(f.Keep))))
	}
	if options := s.Frame().Options; len(options) > 0 {
		list.add("protocol options", string(options))
	}
	for i := range s.Extensions {
		list.add(fmt.Sprintf("extension %d", i+1), eventjson.Value{V: s.Extensions[i]}.String())
	}
	return list
}

func toolsOf(s *projector.State) (list things) {
	for i := range s.Catalog.Tools {
		t := &s.Catalog.Tools[i]
		list.add("tool "+t.Name, eventjson.Value{V: t}.String())
	}
	for _, name := range s.ToolSources {
		list.add("source "+name, "added")
	}
	if !s.Overlay.SessionOverlaid.IsZero() {
		list.add("overlay", overlaySummary(&s.Overlay.SessionOverlaid))
	}
	return list
}

func pluginsOf(s *projector.State) (list things) {
	for i := range s.Plugins {
		p := &s.Plugins[i]
		list.add(p.Plugin, joined(fmt.Sprintf("revision %d", p.Revision), bodyText(p.State, p.Blob), counted(len(p.Artifacts), "artifact")))
	}
	for i := range s.Tasks {
		list.add("task "+string(s.Tasks[i].ID), strings.TrimPrefix(taskLine(&s.Tasks[i]), string(s.Tasks[i].ID)+": "))
	}
	for i := range s.Monitors {
		list.add("monitor "+string(s.Monitors[i].Spec.ID), strings.TrimPrefix(monitorLine(&s.Monitors[i]), string(s.Monitors[i].Spec.ID)+": "))
	}
	return list
}

// bodyText is a whole body, or the digest of one outside of the event.
func bodyText(data []byte, ref events.BlobRef) string {
	if !ref.IsZero() {
		return fmt.Sprintf("%d bytes in blob %.12s", ref.Size, ref.Digest)
	}
	return string(data)
}

func turnsOf(s *projector.State) (list things, err error) {
	records, err := s.Records()
	if err != nil {
		return nil, err
	}
	for i := range records {
		list.add(string(records[i].ID), strings.TrimPrefix(transcript.EndLine(&records[i]), string(records[i].ID)+": "))
	}
	if t := s.Turn(); t != nil {
		list.add(string(t.ID), fmt.Sprintf("runs, attempt %d, iteration %d", t.Attempt, t.Iteration))
	}
	for i := range s.Queue {
		list.add(string(s.Queue[i].ID), "queued")
	}
	for i := range s.Scheduled {
		list.add(string(s.Scheduled[i].ID), "scheduled at "+clock(s.Scheduled[i].At))
	}
	return list, nil
}

// usage sets the difference of the ledgers, those of children included.
func (d *comparison) usage() {
	type key struct{ source, model string }
	sum := make(map[key]events.Usage)
	for _, e := range d.b.state.Usage().Entries {
		sum[key{e.Source, e.Model}] = e.Usage
	}
	for _, e := range d.a.state.Usage().Entries {
		k := key{e.Source, e.Model}
		sum[k] = sum[k].Sub(e.Usage)
	}
	d.Usage = []charged{}
	for k, u := range sum {
		if !u.IsZero() {
			d.Usage = append(d.Usage, charged{k.source, k.model, eventjson.Value{V: u}, u})
		}
	}
	slices.SortFunc(d.Usage, func(x, y charged) int { return cmp.Or(cmp.Compare(x.Source, y.Source), cmp.Compare(x.Model, y.Model)) })
}

func (d *comparison) print(ctx context.Context, e *env, full bool) error {
	e.painted("31", "--- "+d.a.name())
	e.printf("\n")
	e.painted("32", "+++ "+d.b.name())
	e.printf("\n")
	if d.Equal {
		e.println("no difference")
		return nil
	}
	d.section(e, "settings", d.Config, full)
	d.section(e, "tools", d.Tools, full)
	d.section(e, "plugins, tasks and monitors", d.Plugin, full)
	d.section(e, "turns", d.Turns, full)
	if len(d.Usage) > 0 {
		e.println("usage, B minus A")
		for _, u := range d.Usage {
			e.println("   ", joined("for "+quoted(u.Source), "model "+quoted(u.Model), transcript.UsageLine(u.usage)))
		}
	}
	e.printf("conversation: %d common, %d of A only, %d of B only\n", d.Common, len(d.OnlyA), len(d.OnlyB))
	if err := d.list(ctx, e, d.a.src, d.OnlyA, "- ", "31", full); err != nil {
		return err
	}
	return d.list(ctx, e, d.b.src, d.OnlyB, "+ ", "32", full)
}

// section prints changes. Long texts are shortened around the first difference.
func (d *comparison) section(e *env, title string, list []change, full bool) {
	if len(list) == 0 {
		return
	}
	e.println(title)
	for _, c := range list {
		a, b := c.A, c.B
		if !full {
			a, b = aroundDifference(a, b)
		}
		switch {
		case c.A == "":
			e.painted("32", "  + "+transcript.VisibleLine(c.Name+": "+b))
		case c.B == "":
			e.painted("31", "  - "+transcript.VisibleLine(c.Name+": "+a))
		default:
			e.painted("33", "  ~ "+transcript.VisibleLine(c.Name))
			e.printf("\n      %s\n      %s", transcript.VisibleLine(a), transcript.VisibleLine(b))
		}
		e.printf("\n")
	}
}

// aroundDifference shortens two texts to what is around their first difference.
func aroundDifference(a, b string) (string, string) {
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	from := max(0, same-contextBytes)
	return around(a, from), around(b, from)
}

// contextBytes is how much of equal text stands before a difference, and lengthBytes how much is shown.
const (
	contextBytes = 20
	lengthBytes  = 160
)

func around(text string, from int) string {
	if from == 0 || from >= len(text) || len(text) <= lengthBytes {
		from = 0
	}
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	out := events.Clip(text[from:], lengthBytes, "")
	if len(out) < len(text)-from {
		out += "..."
	}
	if from > 0 {
		out = "..." + out
	}
	return out
}

func (d *comparison) list(ctx context.Context, e *env, src source, list []nodeOf, sign, color string, full bool) error {
	p := transcript.NewPrinter(e.Out, transcript.Options{
		Full: full, Lines: resultLines, More: "--full shows all", Color: e.color,
		Blob: func(ref events.BlobRef) ([]byte, error) { return src.Blob(ctx, ref) },
	})
	for _, n := range list {
		kind := string(n.node.Message.Role)
		if n.Kind != events.NodeMessage {
			kind = string(n.Kind) + " " + n.node.Type
		}
		e.painted(color, sign+transcript.VisibleLine(joined(kind+" "+string(n.Node), prefixed("turn ", string(n.Turn)))))
		e.printf("\n")
		p.Parts(n.node.Message.Parts)
		p.Text(string(n.node.Body), n.node.Blob)
	}
	return p.Err()
}
