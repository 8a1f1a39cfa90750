package blob

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/memory"
)

// InlineBytes is the largest body that stays inside an event. Longer ones become blobs.
const InlineBytes = 64 << 10

// inlineTotal is how many bytes of bodies stay inside one event before shorter ones become blobs too.
const inlineTotal = 192 << 10

// Store keeps bodies outside the log under their digests.
type Store interface {
	PutBlob(ctx context.Context, body []byte) (events.BlobRef, error)
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// Reader reads bodies from outside the log, and checks them against their references.
type Reader = follow.BlobReader

// field is a body inside an event, with the reference that can stand in for it.
type field struct {
	text *string
	data *[]byte
	ref  *events.BlobRef
}

func (s field) body() []byte {
	if s.text != nil {
		return []byte(*s.text)
	}
	return *s.data
}

func (s field) size() int {
	if s.text != nil {
		return len(*s.text)
	}
	return len(*s.data)
}

func (s field) set(body []byte, ref events.BlobRef) {
	*s.ref = ref
	if s.text != nil {
		*s.text = string(body)
	} else {
		*s.data = body
	}
}

// fill replaces the reference by the body. A body without a reference stays.
func (s field) fill(ctx context.Context, blobs Reader) error {
	if s.ref.IsZero() {
		return nil
	}
	body, err := blobs.Blob(ctx, *s.ref)
	if err == nil {
		s.set(body, events.BlobRef{})
	}
	return err
}

// Spill moves bodies of an event out of it and into blobs, before its append: each body above [InlineBytes], and
// the largest of the others until the rest is at most 192 KiB. It returns
// a copy where it changes something. It stores the blobs before it returns. Errors: [events.ErrInvalid] for a malformed
// reference, and those of the store.
func Spill(ctx context.Context, blobs Store, p events.Payload) (events.Payload, error) {
	return SpillAbove(ctx, blobs, p, InlineBytes, inlineTotal)
}

// SpillAbove is [Spill] with other bounds, in bytes: inline for one body, and all, at least inline, for
// the sum of the bodies that stay inside the event. Contracts of tools are never inside.
func SpillAbove(ctx context.Context, blobs Store, p events.Payload, inline, all int) (events.Payload, error) {
	p, err := filtered(ctx, blobs, p)
	if err == nil {
		err = storeContracts(ctx, blobs, p)
	}
	if err != nil {
		return nil, err
	}
	c, list := fieldsOf(p)
	if err := list.checkRefs(); err != nil {
		return nil, err
	}
	if list.size() < inline {
		return p, nil
	}
	left := list.size()
	slices.SortStableFunc(list, func(a, b field) int { return b.size() - a.size() }) // the largest first
	for _, body := range list {
		n := body.size()
		if n <= inline && left <= all || n == 0 {
			break
		}
		ref, err := blobs.PutBlob(ctx, body.body())
		if err != nil {
			return nil, fmt.Errorf("spill %s: %w", events.KindOf(p), err)
		}
		body.set(nil, ref)
		left -= n
	}
	return c, nil
}

// Size is the sum of the sizes of the bodies inside an event, in bytes.
func Size(p events.Payload) int {
	_, list := fieldsOf(p)
	return list.size()
}

// fieldsOf lists the bodies of an event. They are fields of the returned copy of p, which shares no
// memory that a change of them would touch.
func fieldsOf(p events.Payload) (events.Payload, fields) {
	var list fields
	switch p := p.(type) {
	case *events.TurnRequested:
		c := *p
		list.parts(&c.Input.Parts)
		return &c, list
	case *events.TurnScheduled:
		c := *p
		list.parts(&c.Input.Parts)
		return &c, list
	case *events.InputInjected:
		c := *p
		list.parts(&c.Parts)
		return &c, list
	case *events.ModelReplied:
		c := *p
		list.parts(&c.Parts)
		list.parts(&c.Shown)
		return &c, list
	case *events.ModelInterrupted:
		c := *p
		list.parts(&c.Parts)
		return &c, list
	case *events.ToolReturned:
		c := *p
		for i := range unshare(&c.Results) {
			list.result(&c.Results[i])
		}
		return &c, list
	case *events.ToolResolved:
		c := *p
		list.result(&c.Result)
		return &c, list
	case *events.ToolResultScheduled:
		c := *p
		list.result(&c.Result)
		return &c, list
	case *events.ToolNestedReturned:
		c := *p
		list.data(&c.Args, &c.Blob)
		list.result(&c.Result)
		return &c, list
	case *events.ToolApprovalAsked:
		c := *p
		list.data(&c.Args, &c.Blob)
		return &c, list
	case *events.ModelCompleted:
		c := *p
		list.parts(&c.Parts)
		return &c, list
	case *events.TurnPrepared:
		c := *p
		for i := range unshare(&c.View) {
			list.parts(&c.View[i].Message.Parts)
		}
		return &c, list
	case *events.PluginStateSaved:
		c := *p
		list.data(&c.State, &c.Blob)
		for i := range unshare(&c.Artifacts) {
			list.data(&c.Artifacts[i].Data, &c.Artifacts[i].Blob)
		}
		return &c, list
	case *events.FrameStateSaved:
		c := *p
		list.data(&c.State, &c.Blob)
		return &c, list
	case *events.GraphAppended:
		c := *p
		list.nodes(&c.Nodes)
		return &c, list
	case *events.FrameOpened:
		c := *p
		list.nodes(&c.Nodes)
		return &c, list
	}
	return p, nil
}

// fields are the bodies of one event. Its methods copy a list before they add its elements.
type fields []field

func (l *fields) data(data *[]byte, ref *events.BlobRef) {
	*l = append(*l, field{data: data, ref: ref})
}

func (l *fields) result(r *events.ToolResult) {
	*l = append(*l, field{text: &r.Text, ref: &r.Blob}, field{text: &r.Full, ref: &r.FullBlob})
	l.parts(&r.Attachments)
	l.parts(&r.Unseen)
}

func (l *fields) nodes(nodes *[]events.NewNode) {
	for i := range unshare(nodes) {
		n := &(*nodes)[i]
		l.parts(&n.Message.Parts)
		l.data(&n.Body, &n.Blob)
	}
}

func (l *fields) parts(parts *[]events.Part) {
	for i := range unshare(parts) {
		*l = append(*l, partBody(&(*parts)[i]))
	}
}

// checkRefs refuses malformed references.
func (l fields) checkRefs() error {
	for i := range l {
		if ref := l[i].ref; !ref.IsZero() {
			if err := ref.Validate("blob"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l fields) size() int {
	n := 0
	for i := range l {
		n += l[i].size()
	}
	return n
}

func partBody(p *events.Part) field {
	if p.Kind == events.PartToolCall {
		return field{data: &p.Args, ref: &p.Blob}
	}
	return field{text: &p.Text, ref: &p.Blob}
}

// unshare replaces a list by a copy.
func unshare[T any](list *[]T) []T {
	*list = append([]T(nil), *list...)
	return *list
}

// Body is data where the reference is zero, and the referenced body elsewhere, which takes memory as [Fill] does.
func Body(ctx context.Context, blobs Reader, data []byte, ref events.BlobRef) ([]byte, error) {
	if ref.IsZero() {
		return data, nil
	}
	if err := memory.Take(ctx, ref.Size); err != nil {
		return nil, err
	}
	return blobs.Blob(ctx, ref)
}
