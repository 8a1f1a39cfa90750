package call

import (
	"context"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/workers/llm"
)

// maxHookBytes limits what the hooks of one point record inside the log, in bytes.
const maxHookBytes = 128 << 10

// maxRecordBytes limits the encoded size of what hooks record at one point, or of a provider's reply, with its bodies
// outside the log, in bytes. The rest of an event is for fields of the runtime.
const maxRecordBytes = events.MaxEventBytes - 16<<10

// tooLarge reports a payload of hooks that does not fit in an event, even with its bodies outside the log, or whose
// bodies are too large to store there.
func tooLarge(p events.Payload) error {
	bodies := blob.Size(p)
	whole, spilled, err := encodedSizes(p)
	switch {
	case bodies > events.MaxBlobBytes:
		return fmt.Errorf("plugins recorded bodies of %d bytes at one point, limit is %d: %w", bodies, events.MaxBlobBytes, events.ErrTooLarge)
	case err != nil:
		return err
	case whole-bodies > maxHookBytes || spilled > maxRecordBytes:
		return fmt.Errorf("plugins recorded %d bytes at one point, limit is %d: %w", whole, maxHookBytes, events.ErrTooLarge)
	}
	return nil
}

// checkReply refuses a reply whose event is invalid or too large. limit is for its encoded size, in bytes.
func checkReply(p events.Payload, limit int) error {
	if err := p.Validate(); err != nil {
		return &llm.Error{Kind: llm.KindMalformed, Code: "reply_invalid", Message: clip(err.Error()), Err: err}
	}
	_, spilled, err := encodedSizes(p)
	switch {
	case err != nil:
		return &llm.Error{Kind: llm.KindMalformed, Code: "reply_too_large", Message: clip(err.Error()), Err: err}
	case spilled > limit:
		return &llm.Error{
			Kind: llm.KindMalformed, Code: "reply_too_large", Err: events.ErrTooLarge,
			Message: fmt.Sprintf("the reply has %d bytes beside the bodies that are stored outside the log, limit is %d", spilled, limit),
		}
	}
	return nil
}

// encodedSizes are the encoded sizes of a payload as it is, and after [blob.Spill].
func encodedSizes(p events.Payload) (whole, spilled int, err error) {
	data, err := events.EncodePayload(p)
	if err != nil {
		return 0, 0, err
	}
	whole = len(data)
	if whole > events.MaxEventBytes {
		if fixed := whole - blob.Size(p); fixed > events.MaxEventBytes { // without a look at its many bodies
			return whole, fixed, nil
		}
	}
	small, err := blob.Spill(context.Background(), unstored{}, p) // the store does no I/O
	if err == nil && small != p {
		data, err = events.EncodePayload(small)
	}
	return whole, len(data), err
}

// unstored returns references without storing the bodies, to measure them.
type unstored struct{ blob.Store }

func (unstored) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
	if len(body) > events.MaxBlobBytes {
		return events.BlobRef{}, fmt.Errorf("a body has %d bytes, limit is %d: %w", len(body), events.MaxBlobBytes, events.ErrTooLarge)
	}
	return events.BlobRef{Digest: strings.Repeat("0", digestBytes), Size: int64(len(body))}, nil
}

// digestBytes is the length of a digest in a reference.
const digestBytes = 64

// appended is the event that records messages of hooks, to measure it.
func appended(list []events.Message) *events.GraphAppended {
	p := &events.GraphAppended{Nodes: make([]events.NewNode, len(list))}
	for i := range list {
		p.Nodes[i] = events.NewNode{ID: events.NodeID(list[i].ID), Kind: events.NodeMessage, Message: list[i]}
	}
	return p
}
