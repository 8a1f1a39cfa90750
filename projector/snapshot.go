package projector

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// snapshot is the stored head.
type snapshot struct {
	Fold     int64            `msgpack:"v"`
	Head     Head             `msgpack:"h"`
	Pages    []events.BlobRef `msgpack:"p,omitempty"`
	Segments []events.BlobRef `msgpack:"s,omitempty"` // after the segments of the pages
	Based    int64            `msgpack:"b,omitempty"`
	Tail     []Node           `msgpack:"t,omitempty"`
	Books    []events.BlobRef `msgpack:"k,omitempty"`
	Records  bookData         `msgpack:"r"`
}

// bookData is a stored book, in the format of one fold version.
type bookData struct {
	Turns    []TurnRecord   `msgpack:"r,omitempty"`
	Settled  []SettledInput `msgpack:"i,omitempty"`
	Requests []Request      `msgpack:"q,omitempty"`
}

// Segment is a part of a state, which is stored under its reference.
type Segment struct {
	Ref  events.BlobRef
	Data []byte
}

// ErrOldFold is a snapshot of another fold version. The caller folds from the log.
var ErrOldFold = fmt.Errorf("snapshot of another fold version, this one is %d", FoldVersion)

// Snapshot encodes the state. fresh has the segments that no earlier Snapshot of this state returned and that were
// not restored. The caller must store them before the head.
func (s *State) Snapshot() (head []byte, fresh []Segment, err error) {
	if !s.HasSnapshot() {
		return nil, nil, fmt.Errorf("snapshot %s: state is ahead of the log, or does not have the hashes of its commits: %w", s.Session, ErrOutOfOrder)
	}
	if fresh, err = s.body.store(); err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", s.Session, err)
	}
	for _, k := range s.body.books[len(s.body.bookRefs):] {
		data, err := events.EncodePayload(k.data())
		if err != nil {
			return nil, nil, fmt.Errorf("snapshot %s: %w", s.Session, err)
		}
		fresh = append(fresh, Segment{Ref: RefOf(data), Data: data})
		s.body.bookRefs = append(s.body.bookRefs, RefOf(data))
	}
	head, err = events.EncodePayload(&snapshot{
		Fold: FoldVersion, Head: s.Head, Pages: s.body.pages, Segments: s.body.loose(), Based: s.body.based,
		Tail: values(s.body.tail), Books: s.body.bookRefs, Records: *s.body.data(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", s.Session, err)
	}
	return head, fresh, nil
}

// SnapshotBodies are the references of all bodies that a snapshot of the state consists of beside its head. The state is whole.
func (s *State) SnapshotBodies() ([]events.BlobRef, error) {
	if _, _, err := s.Snapshot(); err != nil {
		return nil, err
	}
	return slices.Concat(s.body.pages, s.body.refs, s.body.bookRefs), nil
}

func (r *records) data() *bookData {
	return &bookData{Turns: r.turns, Settled: r.settled, Requests: r.requests}
}

// store encodes the segments and pages that no earlier call returned.
func (b *stateBody) store() (fresh []Segment, err error) {
	add := func(v any) (events.BlobRef, error) {
		data, err := events.EncodePayload(v)
		fresh = append(fresh, Segment{Ref: RefOf(data), Data: data})
		return RefOf(data), err
	}
	for i, seg := range b.segments {
		if i < len(b.refs) && (!b.refs[i].IsZero() || i < len(b.pages)*PageSegments) {
			continue
		}
		ref, err := add(&segmentData{baseVersion, values(seg.nodes)})
		if err != nil {
			return nil, err
		}
		if i == len(b.refs) {
			b.refs = append(b.refs, ref)
		} else {
			b.refs[i] = ref
		}
	}
	for n := len(b.pages) * PageSegments; n+PageSegments <= len(b.refs); n += PageSegments {
		ref, err := add(&pageData{baseVersion, b.refs[n : n+PageSegments]})
		if err != nil {
			return nil, err
		}
		b.pages = append(b.pages, ref)
	}
	return fresh, nil
}

// loose are the references to segments that no page lists.
func (b *stateBody) loose() []events.BlobRef { return b.refs[len(b.pages)*PageSegments:] }

// refer sets up segments by reference only.
func (b *stateBody) refer(pages, segments []events.BlobRef) {
	b.pages = slices.Clip(pages)
	b.refs = append(make([]events.BlobRef, len(pages)*PageSegments), segments...)
	b.segments = make([]*segment, len(b.refs))
	for i := range b.segments {
		b.segments[i] = &segment{}
	}
}

// RefOf computes the reference of a body: its digest and size.
func RefOf(body []byte) events.BlobRef {
	sum := sha256.Sum256(body)
	return events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

func values(nodes []*Node) []Node {
	list := make([]Node, len(nodes))
	for i, n := range nodes {
		list[i] = *n
	}
	return list
}

func pointers(nodes []Node) []*Node {
	list := make([]*Node, len(nodes))
	for i := range nodes {
		list[i] = &nodes[i]
	}
	return list
}

// Restore decodes a snapshot's head. Questions that need the body fail with [ErrPartial] until [State.Attach].
// Errors: [ErrOldFold], [events.ErrMalformed].
func Restore(head []byte) (*State, error) {
	var snap snapshot
	if err := events.DecodePayload(head, &snap); err != nil {
		return nil, fmt.Errorf("restore snapshot: %w", err)
	}
	if snap.Fold != FoldVersion {
		return nil, fmt.Errorf("restore snapshot of fold version %d: %w", snap.Fold, ErrOldFold)
	}
	if len(snap.Pages) > maxBasePages || len(snap.Segments) >= PageSegments {
		return nil, fmt.Errorf("restore snapshot: %w: %d pages, %d segments", events.ErrMalformed, len(snap.Pages), len(snap.Segments))
	}
	if h := &snap.Head; h.Copied < 0 || h.Copied > h.Nodes {
		return nil, fmt.Errorf("restore snapshot: %w: %d copied of %d nodes", events.ErrMalformed, h.Copied, h.Nodes)
	}
	if err := checkFrames("frames", snap.Head.Frames); err != nil {
		return nil, fmt.Errorf("restore snapshot: %w: %w", events.ErrMalformed, err)
	}
	if h := &snap.Head; h.Proof.Tree.Check() != nil || h.Proof.Tree.Size() != int64(h.Seq) {
		return nil, fmt.Errorf("restore snapshot: %w: a tree of %d commits at sequence %d", events.ErrMalformed, h.Proof.Tree.Size(), h.Seq)
	}
	s := &State{Head: snap.Head}
	b := &s.body
	b.refer(snap.Pages, snap.Segments)
	b.based, b.tail = snap.Based, pointers(snap.Tail)
	b.records = snap.Records.decoded()
	b.bookRefs = snap.Books
	for range snap.Books {
		b.books = append(b.books, &book{})
	}
	return s, nil
}

func (d *bookData) decoded() records {
	return records{turns: d.Turns, settled: d.Settled, requests: d.Requests}
}

// Missing lists the references of bodies that are not attached: pages, known segments (oldest first) and books. The
// segments of a page are listed after the page is attached.
func (s *State) Missing() []events.BlobRef {
	var refs []events.BlobRef
	b := &s.body
	for i, seg := range b.segments {
		switch page := i / PageSegments; {
		case seg.loaded:
		case !b.refs[i].IsZero():
			refs = append(refs, b.refs[i])
		case i%PageSegments == 0:
			refs = append(refs, b.pages[page])
		}
	}
	for i, k := range b.books {
		if !k.loaded {
			refs = append(refs, b.bookRefs[i])
		}
	}
	return refs
}

// Attach adds a missing body. Data with another digest is refused with [events.ErrMalformed].
func (s *State) Attach(ref events.BlobRef, data []byte) error {
	if RefOf(data) != ref {
		return fmt.Errorf("attach segment %s: %w: digest differs", ref.Digest, events.ErrMalformed)
	}
	b := &s.body
	if b.shared {
		b.segments, b.refs, b.books, b.shared = slices.Clone(b.segments), slices.Clone(b.refs), slices.Clone(b.books), false
	}
	if err := b.attach(ref, data); err != nil {
		return fmt.Errorf("attach segment %s: %w", ref.Digest, err)
	}
	return nil
}

func (b *stateBody) attach(ref events.BlobRef, data []byte) error {
	page, err := bodyIndex(b.pages, ref)
	if err != nil {
		return err
	}
	if first := page * PageSegments; page >= 0 && b.refs[first].IsZero() {
		var d pageData
		if err := decodeBody(data, &d); err != nil {
			return err
		}
		copy(b.refs[first:], d.Segments)
	}
	i, err := bodyIndex(b.refs, ref)
	if err != nil {
		return err
	}
	if i >= 0 && !b.segments[i].loaded {
		var d segmentData
		if err := decodeBody(data, &d); err != nil {
			return err
		}
		if int64(i) < b.based {
			d.Nodes = copyNodes(d.Nodes)
		}
		b.segments[i] = newSegment(pointers(d.Nodes))
	}
	if i, err = bodyIndex(b.bookRefs, ref); err != nil {
		return err
	}
	if i >= 0 && !b.books[i].loaded {
		var d bookData
		if err := events.DecodePayload(data, &d); err != nil {
			return err
		}
		b.books[i] = &book{loaded: true, records: d.decoded()}
	}
	return nil
}

// bodyIndex returns the index of a body in a list, or -1. A state has no two equal bodies, so each body is decoded once,
// and a state is never larger than its stored bodies. A list that names a body twice is refused.
func bodyIndex(list []events.BlobRef, ref events.BlobRef) (int, error) {
	i := slices.Index(list, ref)
	if i >= 0 && slices.Contains(list[i+1:], ref) {
		return -1, errTwice(ref)
	}
	return i, nil
}

func errTwice(ref events.BlobRef) error {
	return fmt.Errorf("%w: body %s is named twice", events.ErrMalformed, ref.Digest)
}
