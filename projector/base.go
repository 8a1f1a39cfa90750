package projector

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// baseVersion is the version of the base format, of its pages and of its segments. FORMAT.md of package events
// describes it.
const baseVersion = 1

const (
	// PageSegments is the number of segments that a page lists.
	PageSegments = 64
	// maxBasePages limits the pages of a base. It allows 8 million nodes.
	maxBasePages = 1 << 12
	// maxBaseFrames limits the frames of a base.
	maxBaseFrames = 1 << 16
)

// Base is the stored initial content of a session that starts as a copy: a small head, and segments with all but the
// last nodes. Copies and snapshots of one history share the segments.
type Base struct {
	Version  int64            `msgpack:"v"`
	Leaf     events.NodeID    `msgpack:"l,omitempty"` // empty means before the first node
	Branched bool             `msgpack:"br,omitempty"`
	Nodes    int64            `msgpack:"n,omitempty"` // total number
	Frames   []Frame          `msgpack:"f,omitempty"` // the first is the initial one, which gets the new session's id
	Pages    []events.BlobRef `msgpack:"p,omitempty"` // of [PageSegments] segments each
	Segments []events.BlobRef `msgpack:"s,omitempty"` // after those of the pages
	Tail     []Node           `msgpack:"t,omitempty"` // after those of the segments
}

// pageData lists the segments of a page.
type pageData struct {
	Version  int64            `msgpack:"v"`
	Segments []events.BlobRef `msgpack:"s"`
}

// segmentData is a stored segment.
type segmentData struct {
	Version int64  `msgpack:"v"`
	Nodes   []Node `msgpack:"n"`
}

// MissingBaseError is a first commit with a base that the state does not have.
type MissingBaseError struct {
	Session events.SessionID
	Ref     events.BlobRef
}

func (e *MissingBaseError) Error() string {
	return fmt.Sprintf("session %s began as a copy: its base, blob %s, is needed before anything of it can be read", e.Session, e.Ref.Digest)
}

// Is makes the error an [ErrPartial].
func (e *MissingBaseError) Is(target error) bool { return target == ErrPartial }

// EncodeBase encodes the initial content of a copy of the state: its graph and frames. The caller must store the
// fresh bodies before the base, as with [State.Snapshot].
func (s *State) EncodeBase() (base []byte, fresh []Segment, err error) {
	if s.ahead {
		return nil, nil, fmt.Errorf("base of %s: state is ahead of the log: %w", s.Session, ErrOutOfOrder)
	}
	if fresh, err = s.body.store(); err != nil {
		return nil, nil, fmt.Errorf("base of %s: %w", s.Session, err)
	}
	b := Base{
		Version: baseVersion, Leaf: s.Leaf, Branched: s.Branched, Nodes: s.Nodes, Frames: s.Frames,
		Pages: s.body.pages, Segments: s.body.loose(), Tail: values(s.body.tail),
	}
	if err := b.check(); err != nil {
		return nil, nil, fmt.Errorf("base of %s: %w", s.Session, err)
	}
	base, err = events.EncodePayload(&b)
	return base, fresh, err
}

// decodeBody decodes a body of the base format.
func decodeBody(body []byte, v interface{ check() error }) error {
	var have struct {
		Version int64 `msgpack:"v"`
	}
	if err := events.DecodePayload(body, &have); err != nil {
		return err
	}
	if have.Version != baseVersion {
		return fmt.Errorf("%w: base format %d, this program reads %d", events.ErrFutureVersion, have.Version, baseVersion)
	}
	if err := events.DecodePayload(body, v); err != nil {
		return err
	}
	return v.check()
}

// decodeBase decodes a base. Errors: [events.ErrMalformed], [events.ErrInvalid], [events.ErrFutureVersion].
func decodeBase(body []byte) (*Base, error) {
	b := &Base{}
	if err := decodeBody(body, b); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	return b, nil
}

func (b *Base) check() error {
	segments := int64(len(b.Pages)*PageSegments + len(b.Segments))
	tail := int64(len(b.Tail))
	switch {
	case len(b.Frames) > maxBaseFrames:
		return outOfBounds("frames", len(b.Frames), 0, maxBaseFrames)
	case len(b.Pages) > maxBasePages:
		return outOfBounds("pages", len(b.Pages), 0, maxBasePages)
	case len(b.Segments) >= PageSegments:
		return outOfBounds("segments", len(b.Segments), 0, PageSegments-1)
	case tail >= 2*SegmentNodes:
		return outOfBounds("tail", len(b.Tail), 0, 2*SegmentNodes-1)
	case b.Nodes < segments+tail || b.Nodes > segments*SegmentNodes+tail:
		return &events.FieldError{Field: "base.nodes", Reason: fmt.Sprintf("%d do not stand in %d segments and %d more", b.Nodes, segments, tail), Err: events.ErrInvalid}
	}
	return errors.Join(checkFrames("base.frames", b.Frames), checkRefs("base.pages", b.Pages), checkRefs("base.segments", b.Segments), checkNodes("base.tail", b.Tail))
}

func (p *pageData) check() error {
	if len(p.Segments) != PageSegments {
		return outOfBounds("page", len(p.Segments), PageSegments, PageSegments)
	}
	return checkRefs("page", p.Segments)
}

func (d *segmentData) check() error {
	if len(d.Nodes) == 0 || len(d.Nodes) > SegmentNodes {
		return outOfBounds("segment", len(d.Nodes), 1, SegmentNodes)
	}
	return checkNodes("segment", d.Nodes)
}

func outOfBounds(field string, n, least, most int) error {
	return &events.FieldError{Field: "base." + field, Reason: fmt.Sprintf("has %d, want %d to %d", n, least, most), Err: events.ErrInvalid}
}

// checkFrames checks the frames of a stored state. A frame may count more initial nodes than the state has: a copy of
// the path has the frames of the whole graph.
func checkFrames(field string, frames []Frame) error {
	for i := range frames {
		if n := frames[i].Seeds; n < 0 {
			return &events.FieldError{Field: fmt.Sprintf("%s[%d].seeds", field, i), Reason: fmt.Sprintf("is %d, want at least 0", n), Err: events.ErrInvalid}
		}
	}
	return nil
}

func checkRefs(field string, refs []events.BlobRef) error {
	for i := range refs {
		if err := refs[i].Validate(field); err != nil {
			return err
		}
	}
	return nil
}

func checkNodes(field string, nodes []Node) error {
	list := make([]events.NewNode, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		list[i] = events.NewNode{ID: n.ID, Kind: n.Kind, Message: n.Message, Type: n.Type, Body: n.Body, Blob: n.Blob}
	}
	if err := events.ValidateNodes(list); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// attachedBase is the base for the first commit.
type attachedBase struct {
	ref  events.BlobRef
	base *Base
}

// BaseOf is the base that a first commit names. Without one it is zero.
func BaseOf(c *events.Commit) events.BlobRef {
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.SessionOpened); ok {
			return p.Base
		}
	}
	return events.BlobRef{}
}

// NeedsBase is the base that the state needs to fold the commit. It is zero if nothing is missing.
func (s *State) NeedsBase(c *events.Commit) events.BlobRef {
	if s.Seq > 0 {
		return events.BlobRef{}
	}
	ref := BaseOf(c)
	if s.body.base != nil && s.body.base.ref == ref {
		return events.BlobRef{}
	}
	return ref
}

// AttachBase adds the base for the first commit to an empty state. Errors: [events.ErrMalformed] for another digest,
// and those of a malformed base.
func (s *State) AttachBase(ref events.BlobRef, body []byte) error {
	if RefOf(body) != ref {
		return fmt.Errorf("base %s: %w: digest differs", ref.Digest, events.ErrMalformed)
	}
	b, err := decodeBase(body)
	if err != nil {
		return err
	}
	s.body.base = &attachedBase{ref: ref, base: b}
	return nil
}

// applyBase starts the state from the attached base. Without it, which happens in [State.ApplyUncommitted] only, every
// question about the graph fails with [ErrPartial].
func (s *State) applyBase(ref events.BlobRef) {
	g := s.body.base
	s.body.base = nil
	if g == nil || g.ref != ref {
		s.Leaf = s.Forked.Leaf
		s.body.segments, s.body.refs = []*segment{{}}, []events.BlobRef{ref}
		return
	}
	b := g.base
	s.Leaf, s.Nodes, s.Copied, s.Branched = b.Leaf, b.Nodes, b.Nodes, b.Branched
	if len(b.Frames) > 0 { // empty for a copy of a state before its first event
		s.Frames = slices.Clone(b.Frames)
		s.Frames[0].ID = InitialFrame(s.Session)
	}
	s.body.refer(b.Pages, b.Segments)
	s.body.based = int64(len(s.body.segments))
	s.body.tail = pointers(copyNodes(b.Tail))
	s.body.path, s.body.links = nil, nil
}

// copyNodes are nodes as a copy has them: its first commit added them, without turn or request.
func copyNodes(nodes []Node) []Node {
	list := slices.Clone(nodes)
	for i := range list {
		list[i].Seq, list[i].Turn, list[i].Key = 1, "", ""
	}
	return list
}

// PathOnly is the state with the nodes of its active path only. It needs the complete state if the session has
// branches. Segments that lie on the path stay unchanged.
func (s *State) PathOnly() (*State, error) {
	c := s.Clone()
	if !s.Branched {
		return c, nil
	}
	path, err := c.Path()
	if err != nil {
		return nil, err
	}
	on := make(map[*Node]bool, len(path))
	for _, n := range path {
		on[n] = true
	}
	onPath := func(n *Node) bool { return on[n] }
	b := &c.body
	old, refs := b.segments, b.refs
	b.segments, b.refs, b.pages, b.shared, b.based = nil, nil, nil, false, 0
	for i, seg := range old {
		nodes := filterNodes(seg.nodes, onPath)
		switch {
		case len(nodes) == len(seg.nodes):
			b.segments = append(b.segments, seg)
			if i < len(refs) {
				b.refs = append(b.refs, refs[i])
			} else {
				b.refs = append(b.refs, events.BlobRef{})
			}
		case len(nodes) > 0:
			b.segments, b.refs = append(b.segments, newSegment(nodes)), append(b.refs, events.BlobRef{})
		}
	}
	b.tail = filterNodes(b.tail, onPath)
	b.index, b.keys = nil, nil
	c.Nodes, c.Branched, c.Leaf = int64(len(path)), false, ""
	if len(path) > 0 {
		c.Leaf = path[len(path)-1].ID // replaces a leaf that names no node
	}
	return c, nil
}

func filterNodes(nodes []*Node, wanted func(*Node) bool) []*Node {
	list := make([]*Node, 0, len(nodes))
	for _, n := range nodes {
		if wanted(n) {
			list = append(list, n)
		}
	}
	return list
}

// Unstored is the state without the references of its loaded bodies, so that Snapshot returns all of them again.
func (s *State) Unstored() *State {
	c := s.Clone()
	b := &c.body
	b.refs, b.pages = slices.Clone(b.refs), nil
	for i := range b.refs {
		if b.segments[i].loaded {
			b.refs[i] = events.BlobRef{}
		}
	}
	return c
}

// CheckBase compares the copy that a session started with and its ancestor. ancestor is complete, at the sequence
// that s names.
func (s *State) CheckBase(ancestor *State) error {
	if ancestor.Seq != s.Forked.Seq {
		return fmt.Errorf("session %s ends at sequence %d, the base says that it is of %d", ancestor.Session, ancestor.Seq, s.Forked.Seq)
	}
	want, err := ancestor.AllNodes()
	if err != nil {
		return err
	}
	all, err := s.AllNodes()
	if err != nil {
		return err
	}
	n := int(min(s.Copied, int64(len(all))))
	if n != len(want) { // a copy of the path only
		if want, err = ancestor.Path(); err != nil {
			return err
		}
	}
	if a, b := encodedDigest(values(all[:n])), encodedDigest(copyNodes(values(want))); a != b {
		return fmt.Errorf("the nodes of the base are not those of session %s at sequence %d", s.Forked.Session, s.Forked.Seq)
	}
	have, frames := slices.Clone(s.Frames), slices.Clone(ancestor.Frames)
	if len(have) > 0 && len(frames) > 0 {
		have[0].ID = frames[0].ID
	}
	if encodedDigest(have) != encodedDigest(frames) {
		return fmt.Errorf("the frames of the base are not those of session %s at sequence %d", s.Forked.Session, s.Forked.Seq)
	}
	if s.Forked.Leaf != ancestor.Leaf {
		return fmt.Errorf("the base has leaf %s, session %s had %s", s.Forked.Leaf, s.Forked.Session, ancestor.Leaf)
	}
	return nil
}
