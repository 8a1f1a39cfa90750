package exchange

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

// Document is a session for writers.
type Document struct {
	Session events.SessionID
	Parent  events.SessionID // of a child session; empty otherwise
	Owner   string           // empty without an owner
	Labels  map[string]string
	Config  events.Config // at the end
	Began   events.Millis
	Ended   events.Millis // time of the last commit
	Commits events.Seq
	Leaf    events.NodeID
	Entries []Entry // in the order of the history
	Turns   []projector.TurnRecord

	Children map[events.SessionID]*Document // all generations, as [Document.ReadChildren] reads them; nil before

	Redactions []events.RedactionRecord // of the history, in order; the caller sets them

	Root   proof.Hash // of the tree of all commits, see package proof
	Signed events.Seq // the last commit with a signed head; 0: none
}

// Entry is a node of the conversation, a reply without content, or another event. Exactly one of Node, Reply and Event
// decides what it is: a Node may have a Reply, which it came from.
type Entry struct {
	ID     string        // of the node; of other entries the event's
	Event  *events.Event // of other entries
	Node   *projector.Node
	Reply  *events.ModelReplied // of a reply: its model, usage and end
	Active bool                 // the node is on the active path
	At     events.Millis
	Seq    events.Seq
	Turn   events.TurnID
	Actor  events.Actor
}

// Read reads a session's document, with all bodies, at its end. Errors: a [*events.KeyError] where a payload cannot be read.
func Read(ctx context.Context, log events.Log, blobs blob.Reader, id events.SessionID) (*Document, error) {
	return ReadAt(ctx, log, blobs, id, math.MaxUint64)
}

// ReadAt is [Read] at a sequence.
func ReadAt(ctx context.Context, log events.Log, blobs blob.Reader, id events.SessionID, at events.Seq) (*Document, error) {
	s, err := follow.ReadAt(ctx, log, blobs, id, at)
	if err != nil {
		return nil, err
	}
	d := &Document{
		Session: id, Parent: s.Parent, Owner: s.Owner, Labels: s.Labels, Config: s.Config, Began: s.CreatedAt, Ended: s.UpdatedAt,
		Commits: s.Seq, Leaf: s.Leaf,
	}
	if d.Turns, err = s.Records(); err != nil {
		return nil, err
	}
	b := &builder{d: d, replies: make(map[events.MessageID]*Entry)}
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, err
		}
		if entry.Seq > at {
			break
		}
		if locked := entry.Commit.Locked(); locked != 0 {
			return nil, fmt.Errorf("session %s at sequence %d: %w", id, entry.Seq, &events.KeyError{ID: locked})
		}
		b.commit(entry)
	}
	d.Root, d.Signed = b.tree.Root(b.leaf), b.signed
	return d, b.nodes(ctx, blobs, s)
}

// builder builds a document.
type builder struct {
	d       *Document
	others  []Entry                     // events, and replies until their node is known
	replies map[events.MessageID]*Entry // by the message of the node
	tree    proof.Tree                  // of the commits before the last one
	leaf    proof.Hash                  // of the last one
	signed  events.Seq
}

// commit takes what a commit adds besides nodes.
func (b *builder) commit(e events.Entry) {
	if e.Seq > 1 {
		b.tree.Append(b.leaf)
		b.tree.Keep(proof.KeptLeaves)
	}
	b.leaf, _, _ = e.Hash() // no error: the entry has its encoding
	for i := range e.Commit.Events {
		if e.Commit.Events[i].Kind == events.KindAuditHeadSigned {
			b.signed = e.Seq
		}
	}
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		one := Entry{ID: string(e.Commit.EventID(i)), Event: ev, At: e.Commit.At, Seq: e.Seq, Turn: ev.Turn, Actor: e.Commit.Actor}
		if p, ok := ev.Payload.(*events.ModelReplied); ok {
			one.Reply = p
			if len(p.Parts) > 0 {
				name := p.Message
				if name == "" {
					name = projector.ReplyMessage(ev.Turn, p.Iteration)
				}
				b.replies[name] = &one
				continue
			}
		}
		if ev.Kind != events.KindGraphAppended { // the nodes have all of it
			b.others = append(b.others, one)
		}
	}
}

// nodes merges the nodes with the other entries, in the order of commits.
func (b *builder) nodes(ctx context.Context, blobs blob.Reader, s *projector.State) error {
	path, err := s.Path()
	if err != nil {
		return err
	}
	active := make(map[events.NodeID]bool, len(path))
	for _, n := range path {
		active[n.ID] = true
	}
	all, err := s.AllNodes()
	if err != nil {
		return err
	}
	bodies := blob.Bounded(blobs)
	list := make([]Entry, 0, len(all)+len(b.others))
	for _, n := range all {
		filled, err := fill(ctx, bodies, n)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.ID, err)
		}
		e := Entry{ID: string(n.ID), Node: filled, Active: active[n.ID], At: n.At, Seq: n.Seq, Turn: n.Turn}
		if r := b.replies[n.Message.ID]; r != nil && n.Message.Role == events.RoleAssistant {
			e.Reply, e.Actor = r.Reply, r.Actor
		}
		list = append(list, e)
	}
	list = append(list, b.others...)
	slices.SortStableFunc(list, func(x, y Entry) int { return int(int64(x.Seq) - int64(y.Seq)) }) //nolint:gosec // sequences are small
	b.d.Entries = list
	return nil
}

// fill copies a node with its bodies.
func fill(ctx context.Context, blobs blob.Reader, n *projector.Node) (*projector.Node, error) {
	c := *n
	messages, err := blob.Fill(ctx, blobs, []events.Message{n.Message})
	if err != nil {
		return nil, err
	}
	c.Message = messages[0]
	c.Body, err = blob.Body(ctx, blobs, n.Body, n.Blob)
	c.Blob = events.BlobRef{}
	return &c, err
}

// Losses are what a format cannot hold, with how often each occurs.
type Losses struct {
	kinds  []string
	counts map[string]int
}

// Add counts a loss.
func (l *Losses) Add(what string) {
	if l.counts == nil {
		l.counts = make(map[string]int)
	}
	if l.counts[what] == 0 {
		l.kinds = append(l.kinds, what)
	}
	l.counts[what]++
}

// AddN counts n losses.
func (l *Losses) AddN(what string, n int) {
	for range n {
		l.Add(what)
	}
}

// Loss is one kind of loss.
type Loss struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// List is the losses in the order of their first occurrence. It is not nil.
func (l *Losses) List() []Loss {
	list := make([]Loss, 0, len(l.kinds))
	for _, what := range l.kinds {
		list = append(list, Loss{what, l.counts[what]})
	}
	return list
}

// isCancelledByRuntime reports whether a result is the runtime's own, for a cancelled call whose tool returned none.
func isCancelledByRuntime(p *events.Part) bool {
	return p.Kind == events.PartToolResult && p.Outcome == events.OutcomeCancelled && turn.IsNoResultText(p.Text)
}
