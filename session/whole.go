package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// What plugins are given is whole: the functions of this file are the one place
// that puts bodies from outside the log where an event has a reference. What has
// no reference is shared, and not copied. An error means that a body cannot be
// read: a hook must not decide without it.

// MaxWholeBytes bounds the bodies from outside the log that one of these functions brings into memory, in bytes:
// a conversation, an input or a request that refers to more is [events.ErrTooLarge]. A reference is a hundred bytes, and
// what it refers to 64 MiB, so that a message can name more than any machine holds.
const MaxWholeBytes = 2 * events.MaxBlobBytes

// bounded reads bodies of [MaxWholeBytes] in all. What a reference says of the size may be wrong.
type bounded struct {
	BlobReader
	read int64
}

// Bounded reads bodies of at most [MaxWholeBytes] in all, for one use at a time.
func Bounded(blobs BlobReader) BlobReader { return &bounded{BlobReader: blobs} }

func (b *bounded) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	size := ref.Size
	if b.read+size <= MaxWholeBytes {
		body, err := b.BlobReader.Blob(ctx, ref)
		if err != nil {
			return nil, err
		}
		size = int64(len(body))
		if b.read+size <= MaxWholeBytes {
			b.read += size
			return body, nil
		}
	}
	return nil, &events.FieldError{
		Field: "bodies", Reason: fmt.Sprintf("have %d bytes and more together, limit is %d", b.read+size, MaxWholeBytes), Err: events.ErrTooLarge,
	}
}

// Fill gives every spilled body of the messages back its text.
func Fill(ctx context.Context, blobs BlobReader, messages []events.Message) ([]events.Message, error) {
	shared := true
	blobs = Bounded(blobs)
	for i := range messages {
		if !anySpilled(messages[i].Parts) {
			continue
		}
		if shared {
			messages, shared = slices.Clone(messages), false
		}
		if err := fillParts(ctx, blobs, &messages[i].Parts); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// FillView is [Fill] for a view: its nodes, and its messages, which are those of nodes.
func FillView(ctx context.Context, blobs BlobReader, v projector.ReadView) (projector.ReadView, error) {
	if !v.Spilled {
		return v, nil
	}
	blobs = Bounded(blobs)
	parts := make(map[events.MessageID][]events.Part)
	v.Nodes, v.Messages, v.Spilled = slices.Clone(v.Nodes), slices.Clone(v.Messages), false
	for i, n := range v.Nodes {
		if !anySpilled(n.Message.Parts) && n.Blob.IsZero() {
			continue
		}
		whole := *n // nodes are the state's
		err := fillParts(ctx, blobs, &whole.Message.Parts)
		if err == nil {
			err = spillable{data: &whole.Body, ref: &whole.Blob}.fill(ctx, blobs)
		}
		if err != nil {
			return v, fmt.Errorf("node %s: %w", n.ID, err)
		}
		v.Nodes[i] = &whole
		if _, known := parts[n.Message.ID]; !known && n.Kind == events.NodeMessage { // of equal ids the first counts
			parts[n.Message.ID] = whole.Message.Parts
		}
	}
	for i := range v.Messages {
		if whole, filled := parts[v.Messages[i].ID]; filled && anySpilled(v.Messages[i].Parts) {
			v.Messages[i].Parts = whole
		}
	}
	return v, nil
}

// FillState has the views of a state, and of its clones, be whole.
func FillState(ctx context.Context, blobs BlobReader, s *projector.State) error {
	v, err := s.View()
	if err == nil {
		v, err = FillView(ctx, blobs, v)
	}
	if err != nil {
		return fmt.Errorf("bodies of session %s: %w", s.Session, err)
	}
	s.CacheView(v)
	return nil
}

// FillInput is [Fill] for the input of a turn.
func FillInput(ctx context.Context, blobs BlobReader, in events.TurnInput) (events.TurnInput, error) {
	err := fillParts(ctx, Bounded(blobs), &in.Parts)
	return in, err
}

// FillResult is [Fill] for the result of a call: its texts, its attachments, and
// the nodes of a frame that it switches to.
func FillResult(ctx context.Context, blobs BlobReader, r events.ToolResult) (events.ToolResult, error) {
	var list bodies
	list.result(&r)
	list.nodes(&r.Switch.Nodes)
	return r, list.fill(ctx, Bounded(blobs))
}

// FillNodes is [Fill] for nodes that are about to be appended, or to open a frame.
func FillNodes(ctx context.Context, blobs BlobReader, nodes []events.NewNode) ([]events.NewNode, error) {
	var list bodies
	list.nodes(&nodes)
	return nodes, list.fill(ctx, Bounded(blobs))
}

func (l bodies) fill(ctx context.Context, blobs BlobReader) error {
	for i := range l {
		if err := l[i].fill(ctx, blobs); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// fillParts replaces the list where one of its parts has a reference.
func fillParts(ctx context.Context, blobs BlobReader, parts *[]events.Part) error {
	if !anySpilled(*parts) {
		return nil
	}
	var list bodies
	list.parts(parts)
	return list.fill(ctx, blobs)
}

func anySpilled(parts []events.Part) bool {
	for i := range parts { // by index: parts are large, and every model call looks at all of the view
		if !parts[i].Blob.IsZero() {
			return true
		}
	}
	return false
}
