package projector

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// snapshot is the head as it is stored.
type snapshot struct {
	Fold     int64            `msgpack:"v"`
	Head     Head             `msgpack:"h"`
	Segments []events.BlobRef `msgpack:"s,omitempty"`
	Tail     []Node           `msgpack:"t,omitempty"`
	Turns    []TurnRecord     `msgpack:"r,omitempty"`
	Settled  []SettledInput   `msgpack:"i,omitempty"`
	Requests []Request        `msgpack:"q,omitempty"`
}

// segmentData is a segment as it is stored.
type segmentData struct {
	Nodes    []Node         `msgpack:"n"`
	Turns    []TurnRecord   `msgpack:"r,omitempty"`
	Settled  []SettledInput `msgpack:"i,omitempty"`
	Requests []Request      `msgpack:"q,omitempty"`
}

// Segment is a piece of state to be stored under its reference.
type Segment struct {
	Ref  events.BlobRef
	Data []byte
}

// ErrOldFold is a snapshot made by another fold version. The caller folds from the log instead.
var ErrOldFold = fmt.Errorf("snapshot of another fold version, this one is %d", FoldVersion)

// Snapshot encodes the state. The segments are those that no earlier Snapshot
// of this state handed out and that were not restored: they must be stored before the head is.
func (s *State) Snapshot() (head []byte, fresh []Segment, err error) {
	if s.ahead {
		return nil, nil, fmt.Errorf("snapshot %s: state is ahead of the log: %w", s.Session, ErrOutOfOrder)
	}
	snap := snapshot{Fold: FoldVersion, Head: s.Head, Turns: s.body.turns, Settled: s.body.settled, Requests: s.body.requests}
	for _, seg := range s.body.segments[len(s.body.refs):] {
		data, err := seg.encode()
		if err != nil {
			return nil, nil, fmt.Errorf("snapshot %s: %w", s.Session, err)
		}
		fresh = append(fresh, Segment{Ref: RefOf(data), Data: data})
		s.body.refs = append(s.body.refs, RefOf(data))
	}
	snap.Segments = s.body.refs
	snap.Tail = values(s.body.tail)
	head, err = events.EncodePayload(&snap)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", s.Session, err)
	}
	return head, fresh, nil
}

func (seg *segment) encode() ([]byte, error) {
	return events.EncodePayload(&segmentData{Nodes: values(seg.nodes), Turns: seg.turns, Settled: seg.settled, Requests: seg.requests})
}

// RefOf is the reference of a body: its digest and size.
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

// Restore decodes a snapshot's head. The state answers everything that the
// head holds at once; the rest after [State.Attach]. Errors: [ErrOldFold], [events.ErrMalformed].
func Restore(head []byte) (*State, error) {
	var snap snapshot
	if err := events.DecodePayload(head, &snap); err != nil {
		return nil, fmt.Errorf("restore snapshot: %w", err)
	}
	if snap.Fold != FoldVersion {
		return nil, fmt.Errorf("restore snapshot of fold version %d: %w", snap.Fold, ErrOldFold)
	}
	s := &State{Head: snap.Head}
	s.body.tail = pointers(snap.Tail)
	s.body.turns, s.body.settled, s.body.requests = snap.Turns, snap.Settled, snap.Requests
	s.body.refs = snap.Segments
	for range snap.Segments {
		s.body.segments = append(s.body.segments, &segment{})
	}
	return s, nil
}

// Missing lists the segments that are not attached, oldest first.
func (s *State) Missing() []events.BlobRef {
	var refs []events.BlobRef
	for i, seg := range s.body.segments {
		if !seg.loaded {
			refs = append(refs, s.body.refs[i])
		}
	}
	return refs
}

// Attach gives the state a missing segment. Data that does not have the
// reference's digest is refused with [events.ErrMalformed].
func (s *State) Attach(ref events.BlobRef, data []byte) error {
	if RefOf(data) != ref {
		return fmt.Errorf("attach segment %s: %w: digest differs", ref.Digest, events.ErrMalformed)
	}
	for i := range s.body.refs {
		if s.body.refs[i] != ref || s.body.segments[i].loaded {
			continue
		}
		var d segmentData
		if err := events.DecodePayload(data, &d); err != nil {
			return fmt.Errorf("attach segment %s: %w", ref.Digest, err)
		}
		if s.body.shared {
			s.body.segments, s.body.shared = slices.Clone(s.body.segments), false
		}
		s.body.segments[i] = &segment{loaded: true, nodes: pointers(d.Nodes), turns: d.Turns, settled: d.Settled, requests: d.Requests}
		return nil
	}
	return nil
}
