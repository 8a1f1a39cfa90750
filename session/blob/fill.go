package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/memory"
)

// The functions of this file replace references by the bodies that they name, for plugins and protocols. Memory
// without a reference is shared with the argument. An error means that a body cannot be read: a hook must not decide
// without it.

// MaxFillBytes bounds the bodies that one of these functions reads into memory, in bytes. A conversation, an input or
// a request that refers to more is [events.ErrTooLarge]. A reference has about a hundred bytes and its body up to
// 64 MiB, so a short message can name more than the memory of the machine.
const MaxFillBytes = 2 * events.MaxBlobBytes

// bounded reads at most [MaxFillBytes]. It counts the bytes read, as the size in a reference may be wrong.
type bounded struct {
	Reader
	read int64
}

// Bounded is a reader of at most [MaxFillBytes] in all. One goroutine may use it.
func Bounded(blobs Reader) Reader { return &bounded{Reader: blobs} }

func (b *bounded) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	size := ref.Size
	if b.read+size <= MaxFillBytes {
		body, err := b.Reader.Blob(ctx, ref)
		if err != nil {
			return nil, err
		}
		size = int64(len(body))
		if b.read+size <= MaxFillBytes {
			b.read += size
			return body, nil
		}
	}
	return nil, &events.FieldError{
		Field: "bodies", Reason: fmt.Sprintf("have %d bytes and more together, limit is %d", b.read+size, MaxFillBytes), Err: events.ErrTooLarge,
	}
}

// Fill replaces the references in messages by their bodies.
func Fill(ctx context.Context, blobs Reader, messages []events.Message) ([]events.Message, error) {
	var list fields
	for i := range messages {
		if !anySpilled(messages[i].Parts) {
			continue
		}
		if len(list.all) == 0 {
			messages = slices.Clone(messages)
		}
		list.parts(&messages[i].Parts)
	}
	return messages, list.fill(ctx, Bounded(blobs))
}

// FillView is [Fill] for the nodes of a view and for its messages, which are messages of these nodes.
func FillView(ctx context.Context, blobs Reader, v projector.ReadView) (projector.ReadView, error) {
	if !v.Spilled {
		return v, nil
	}
	var list fields
	parts := make(map[events.MessageID][]events.Part)
	v.Nodes, v.Messages, v.Spilled = slices.Clone(v.Nodes), slices.Clone(v.Messages), false
	for i, n := range v.Nodes {
		if !anySpilled(n.Message.Parts) && n.Blob.IsZero() {
			continue
		}
		whole := *n // the state owns the node
		list.parts(&whole.Message.Parts)
		list.data(&whole.Body, &whole.Blob)
		v.Nodes[i] = &whole
		if _, known := parts[n.Message.ID]; !known && n.Kind == events.NodeMessage { // the first of equal ids
			parts[n.Message.ID] = whole.Message.Parts
		}
	}
	for i := range v.Messages {
		if whole, filled := parts[v.Messages[i].ID]; filled && anySpilled(v.Messages[i].Parts) {
			v.Messages[i].Parts = whole
		}
	}
	return v, list.fill(ctx, Bounded(blobs))
}

// SpilledBytes is the size of the bodies that [FillView] reads for a view, in bytes.
func SpilledBytes(v projector.ReadView) (n int64) {
	if !v.Spilled {
		return 0
	}
	for _, node := range v.Nodes {
		n += node.Blob.Size + PartsBytes(node.Message.Parts)
	}
	return n
}

// PartsBytes is the size of the bodies that parts refer to, in bytes.
func PartsBytes(parts []events.Part) (n int64) {
	for i := range parts {
		n += parts[i].Blob.Size
	}
	return n
}

// FillState fills the view that a state and its clones return. Errors: those of the reader, and an [*events.FieldError] beside
// [bus.ErrNotFound] where a body does not exist: then the session is wrong, and no server.
func FillState(ctx context.Context, blobs Reader, s *projector.State) error {
	v, err := s.View()
	if err == nil {
		v, err = FillView(ctx, blobs, v)
	}
	if err != nil {
		if errors.Is(err, bus.ErrNotFound) {
			err = fmt.Errorf("%w: %w", err, &events.FieldError{Field: "session", Reason: "refers to a body that does not exist", Err: events.ErrInvalid})
		}
		return fmt.Errorf("bodies of session %s: %w", s.Session, err)
	}
	s.CacheView(v)
	return nil
}

// FillInput is [Fill] for the input of a turn.
func FillInput(ctx context.Context, blobs Reader, in events.TurnInput) (events.TurnInput, error) {
	err := fillParts(ctx, Bounded(blobs), &in.Parts)
	return in, err
}

// FillResult is [Fill] for the result of a call: its texts, its attachments, and
// the nodes of the frame that it opens.
func FillResult(ctx context.Context, blobs Reader, r events.ToolResult) (events.ToolResult, error) {
	var list fields
	list.result(&r)
	list.nodes(&r.Switch.Nodes)
	return r, list.fill(ctx, Bounded(blobs))
}

// FillNodes is [Fill] for nodes of an append or of a new frame.
func FillNodes(ctx context.Context, blobs Reader, nodes []events.NewNode) ([]events.NewNode, error) {
	var list fields
	list.nodes(&nodes)
	return nodes, list.fill(ctx, Bounded(blobs))
}

// fill replaces the references by the bodies, which take the memory of the work that reads them, see [memory.Take].
func (l fields) fill(ctx context.Context, blobs Reader) error {
	var bytes int64
	for i := range l.all {
		bytes += l.all[i].ref.Size
	}
	if err := memory.Take(ctx, bytes); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for i := range l.all {
		if err := l.all[i].fill(ctx, blobs); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// FillParts is [Fill] for the parts of one message, without a bound of its own.
func FillParts(ctx context.Context, blobs Reader, parts []events.Part) ([]events.Part, error) {
	err := fillParts(ctx, blobs, &parts)
	return parts, err
}

// fillParts replaces the list where one of its parts has a reference.
func fillParts(ctx context.Context, blobs Reader, parts *[]events.Part) error {
	if !anySpilled(*parts) {
		return nil
	}
	var list fields
	list.parts(parts)
	return list.fill(ctx, blobs)
}

func anySpilled(parts []events.Part) bool {
	for i := range parts { // by index: a part is large, and every model call checks the whole view
		if !parts[i].Blob.IsZero() {
			return true
		}
	}
	return false
}

// FillPayload is the inverse of [Spill] for the events of replies and of tool results. Of a result it
// fills the text that the tool returned, see [Output].
func FillPayload(ctx context.Context, blobs Reader, p events.Payload) (events.Payload, error) {
	p, list := fieldsOf(p, false)
	if p, ok := p.(*events.ToolReturned); ok {
		list.all = nil
		for i := range p.Results {
			list.all = append(list.all, outputField(&p.Results[i]))
		}
	}
	if err := list.fill(ctx, blobs); err != nil {
		return nil, fmt.Errorf("%s: %w", events.KindOf(p), err)
	}
	return p, nil
}

// outputField is the text that a tool returned. The model may read a shorter one.
func outputField(r *events.ToolResult) field {
	if r.Full != "" || !r.FullBlob.IsZero() {
		return field{text: &r.Full, ref: &r.FullBlob}
	}
	return field{text: &r.Text, ref: &r.Blob}
}

// Output is the text that a tool returned, of a result that [FillPayload] filled. The model may read a shorter one.
func Output(r *events.ToolResult) string { return *outputField(r).text }

// ReadOutput is [Output] of a result that is not filled.
func ReadOutput(ctx context.Context, blobs Reader, r *events.ToolResult) (string, error) {
	output := outputField(r)
	text, err := Body(ctx, blobs, output.body(), *output.ref)
	return string(text), err
}
