package projector

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// Node is one node of the session graph. It never changes after its append.
type Node struct {
	ID      events.NodeID   `msgpack:"i"`
	Parent  events.NodeID   `msgpack:"p,omitempty"` // empty for the first node of a path
	At      events.Millis   `msgpack:"a"`
	Seq     events.Seq      `msgpack:"q"`           // of the commit that added it
	Frame   events.FrameID  `msgpack:"f,omitempty"` // empty for the initial frame
	Turn    events.TurnID   `msgpack:"u,omitempty"`
	Kind    events.NodeKind `msgpack:"k"`
	Message events.Message  `msgpack:"m,omitempty"`
	Type    string          `msgpack:"t,omitempty"`
	Body    []byte          `msgpack:"b,omitempty"`
	Blob    events.BlobRef  `msgpack:"r,omitempty"`
	Key     string          `msgpack:"y,omitempty"` // idempotency key of the append that added it
}

// SegmentNodes is the number of nodes in a segment. The head has fewer than twice as many.
const SegmentNodes = 32

// segmentRecords limits the finished turns and settled inputs in the head.
const segmentRecords = 64

// stateBody is the growing part of the state. Segments precede tail, books precede records.
type stateBody struct {
	segments []*segment
	refs     []events.BlobRef // of the stored or restored segments; zero if a page has the reference, or if it is not stored
	pages    []events.BlobRef // of [PageSegments] segments each, from the first on
	based    int64            // number of segments from the base
	books    []*book
	bookRefs []events.BlobRef // of the stored or restored books
	shared   bool             // a clone has the same lists, so Attach copies them first
	tail     []*Node
	records  // since the last book
	base     *attachedBase

	// The indexes are built together on first use, and are complete then.
	index map[events.NodeID]*Node
	keys  map[string][]events.NodeID // of appends with an idempotency key
	ended map[events.TurnID]*TurnRecord

	memo  messageMemo // of prompts
	view  messageMemo
	shown *shownView // nil: views are made from the nodes
	path  []*Node    // cached active path; nil if it must be walked again
	links []string   // of the first nodes of path, cached for chainDigest
}

// clone clips the shared slices, so that appends to the copy do not write into memory of the original. The original
// appends in place, after the end of the copy's slices.
func (b *stateBody) clone() stateBody {
	c := *b
	b.shared, c.shared = true, true
	c.segments = slices.Clip(b.segments)
	c.refs, c.pages = slices.Clip(b.refs), slices.Clip(b.pages)
	c.books, c.bookRefs = slices.Clip(b.books), slices.Clip(b.bookRefs)
	c.tail = slices.Clip(b.tail)
	c.turns = slices.Clip(b.turns)
	c.settled = slices.Clip(b.settled)
	c.requests = slices.Clip(b.requests)
	c.path = slices.Clip(b.path)
	c.links = slices.Clip(b.links)
	c.index, c.keys, c.ended = nil, nil, nil
	c.memo, c.view = messageMemo{}, messageMemo{}
	return c
}

// segment is a block of nodes. It is shared between clones and never changes.
type segment struct {
	loaded bool
	nodes  []*Node
	bytes  int64 // of the nodes
}

func newSegment(nodes []*Node) *segment {
	return &segment{loaded: true, nodes: nodes, bytes: bytesOf(nodes)}
}

// Bytes is about the size of the conversation in memory, in bytes: texts, arguments, bodies, and something for each node.
func (s *State) Bytes() (n int64) {
	for _, seg := range s.body.segments {
		n += seg.bytes
	}
	return n + bytesOf(s.body.tail)
}

// FreshBytes is about the size of what [State.Snapshot] returns, in bytes.
func (s *State) FreshBytes() int64 {
	b := &s.body
	n := bytesOf(b.tail)
	for i, seg := range b.segments {
		if i >= len(b.refs) || b.refs[i].IsZero() && i >= len(b.pages)*PageSegments {
			n += seg.bytes
		}
	}
	return n
}

// overheadBytes is about what a node needs beside what it says.
const overheadBytes = 512

func bytesOf(nodes []*Node) (n int64) {
	for _, node := range nodes {
		n += overheadBytes + node.Bytes()
	}
	return n
}

// Bytes is the size of what a node says, in bytes.
func (n *Node) Bytes() int64 {
	size := len(n.Body)
	for i := range n.Message.Parts {
		p := &n.Message.Parts[i]
		size += len(p.Text) + len(p.Args) + len(p.Meta)
	}
	return int64(size)
}

// book is a block of records. It is shared between clones and never changes.
type book struct {
	loaded bool
	records
}

// records are the parts of the body besides the graph.
type records struct {
	turns    []TurnRecord   // finished turns
	settled  []SettledInput // accepted or cancelled inputs
	requests []Request      // requests with a key
}

func (s *State) appendNodes(p *events.GraphAppended, turn events.TurnID, at events.Millis) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		s.appendNode(&Node{
			ID: n.ID, Kind: n.Kind, Message: n.Message, Type: n.Type, Body: n.Body, Blob: n.Blob,
			Turn: turn, At: at, Key: p.Key,
		})
	}
}

func (s *State) appendMessage(m events.Message, turn events.TurnID, at events.Millis) {
	s.appendNode(&Node{ID: events.NodeID(m.ID), Kind: events.NodeMessage, Message: m, Turn: turn, At: at})
}

// appendNode adds n below the leaf and moves the leaf. All appends use it.
func (s *State) appendNode(n *Node) {
	n.Parent, n.Seq = s.Leaf, s.Seq
	if len(s.Frames) > 1 {
		n.Frame = s.Frame().ID
	}
	s.body.tail = append(s.body.tail, n)
	if s.body.index != nil {
		s.body.indexNode(n)
	}
	if s.body.path != nil || s.Leaf == "" {
		s.body.path = append(s.body.path, n)
	}
	s.Leaf = n.ID
	s.Nodes++
}

func (s *State) branch(leaf events.NodeID) {
	if leaf != s.Leaf {
		s.Branched = true
		s.Moves++
	}
	s.Leaf = leaf
	s.body.path, s.body.links = nil, nil
	s.body.memo, s.body.view = messageMemo{}, messageMemo{} // a kept node does not show where two paths differ
}

// seal moves the oldest nodes of the head into a segment, and the records into a book, if there are enough. It runs
// after every event, so that both depend on the history only.
func (s *State) seal() {
	b := &s.body
	for len(b.tail) >= 2*SegmentNodes {
		b.segments = append(b.segments, newSegment(b.tail[:SegmentNodes:SegmentNodes]))
		b.tail = b.tail[SegmentNodes:]
	}
	if len(b.requests) >= segmentRequests || len(b.turns)+len(b.settled) >= segmentRecords {
		b.books = append(b.books, &book{loaded: true, records: b.records})
		b.records = records{}
	}
}

// all yields every loaded node in the order of appends.
func (s *State) all(yield func(*Node) bool) {
	for _, seg := range s.body.segments {
		for _, n := range seg.nodes {
			if !yield(n) {
				return
			}
		}
	}
	for _, n := range s.body.tail {
		if !yield(n) {
			return
		}
	}
}

// AllNodes lists every node of all branches in the order of appends.
func (s *State) AllNodes() ([]*Node, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	list := make([]*Node, 0, s.Nodes)
	for n := range s.all {
		list = append(list, n)
	}
	return list, nil
}

func (s *State) complete() error { return s.completeFrom(0, 0) }

// completeFrom is complete of the segments and books from two indexes on.
func (s *State) completeFrom(segment, book int) error {
	for _, seg := range s.body.segments[min(segment, len(s.body.segments)):] {
		if !seg.loaded {
			return ErrPartial
		}
	}
	for _, k := range s.body.books[min(book, len(s.body.books)):] {
		if !k.loaded {
			return ErrPartial
		}
	}
	return nil
}

// recorded yields the records of the books and then those of the head.
func (s *State) recorded(yield func(*records) bool) {
	for _, k := range s.body.books {
		if !yield(&k.records) {
			return
		}
	}
	yield(&s.body.records)
}

func (s *State) buildIndex() error {
	if s.body.index != nil {
		return nil
	}
	if err := s.complete(); err != nil {
		return err
	}
	b := &s.body
	b.index = make(map[events.NodeID]*Node, s.Nodes)
	b.keys, b.ended = make(map[string][]events.NodeID), make(map[events.TurnID]*TurnRecord)
	for n := range s.all {
		b.indexNode(n)
	}
	for r := range s.recorded {
		b.indexTurns(r.turns)
	}
	return nil
}

func (b *stateBody) indexNode(n *Node) {
	b.index[n.ID] = n
	if n.Key != "" {
		b.keys[n.Key] = append(b.keys[n.Key], n.ID)
	}
}

func (b *stateBody) indexTurns(turns []TurnRecord) {
	for i := range turns {
		b.ended[turns[i].ID] = &turns[i]
	}
}

// Node finds a node by id on any branch. Without one it returns nil.
func (s *State) Node(id events.NodeID) (*Node, error) {
	if err := s.buildIndex(); err != nil {
		return nil, err
	}
	return s.body.index[id], nil
}

// Path is the active path: from the first node to the leaf, or to the node that replaces a leaf which names no node. The caller must not change
// it.
func (s *State) Path() ([]*Node, error) {
	if s.body.path != nil || s.Leaf == "" {
		return s.body.path, nil
	}
	leaf, orphaned, err := s.Orphaned()
	if err != nil {
		return nil, err
	}
	path, err := s.PathTo(leaf)
	if err == nil && !orphaned {
		s.body.path = path
	}
	return path, err
}

// PathTo is the path from the first node to leaf. An unknown parent ends the walk.
func (s *State) PathTo(leaf events.NodeID) ([]*Node, error) {
	if err := s.buildIndex(); err != nil {
		return nil, err
	}
	var path []*Node
	for n := s.body.index[leaf]; n != nil; n = s.body.index[n.Parent] {
		path = append(path, n)
		if n.Parent == "" || int64(len(path)) > s.Nodes {
			break
		}
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path, nil
}

// OnPath reports whether id is on the active path.
func (s *State) OnPath(id events.NodeID) (bool, error) {
	path, err := s.Path()
	if err != nil || id == "" {
		return false, err
	}
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].ID == id {
			return true, nil
		}
	}
	return false, nil
}

// FreeID changes a wanted id until no node has it and it is not in taken, which may be nil.
func (s *State) FreeID(wish events.NodeID, taken map[events.NodeID]bool) (events.NodeID, error) {
	if err := s.buildIndex(); err != nil {
		return "", err
	}
	id := wish
	for n := 0; s.body.index[id] != nil || taken[id]; n++ {
		id = "message:" + wish
		if n > 0 {
			id = events.NodeID(fmt.Sprintf("message:%s:%d", wish, n+1))
		}
	}
	return id, nil
}

// Orphaned reports whether the leaf names no node, and returns the leaf to use: the newest message node, or
// none.
func (s *State) Orphaned() (leaf events.NodeID, orphaned bool, err error) {
	node, err := s.Node(s.Leaf)
	if err != nil || node != nil || s.Leaf == "" {
		return s.Leaf, false, err
	}
	for n := range s.all {
		if n.Kind == events.NodeMessage {
			leaf = n.ID
		}
	}
	return leaf, true, nil
}

// Appended finds the nodes of the append with this idempotency key.
func (s *State) Appended(key string) ([]events.NodeID, error) {
	err := s.buildIndex()
	return slices.Clone(s.body.keys[key]), err
}

// Record finds a finished turn. Without one it returns nil. A turn in the head needs no segments.
func (s *State) Record(id events.TurnID) (*TurnRecord, error) {
	for i := range s.body.turns {
		if s.body.turns[i].ID == id {
			return &s.body.turns[i], nil
		}
	}
	err := s.buildIndex()
	return s.body.ended[id], err
}

// Records lists the finished turns in the order of their ends.
func (s *State) Records() ([]TurnRecord, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	var list []TurnRecord
	for r := range s.recorded {
		list = append(list, r.turns...)
	}
	return list, nil
}

// Settled finds an accepted or cancelled input. Without one it returns nil.
func (s *State) Settled(id events.InputID) (*SettledInput, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	is := func(i *SettledInput) bool { return i.ID == id }
	for r := range s.recorded {
		if i := findFirst(r.settled, is); i != nil {
			return i, nil
		}
	}
	return nil, nil
}

// encodedDigest is the hex sha256 of v's encoding. It is called with types of this package and of events only, which all
// encode.
func encodedDigest(v any) string {
	sum, err := events.PayloadSum(v)
	if err != nil {
		panic(fmt.Sprintf("projector: %T does not encode: %v", v, err))
	}
	return hex.EncodeToString(sum[:])
}
