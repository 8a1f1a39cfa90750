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
	_, list := fieldsOf(p, true)
	if err := list.checkRefs(); err != nil {
		return nil, err
	}
	left := list.size()
	if left < inline {
		return p, nil
	}
	c, list := fieldsOf(p, false)
	slices.SortStableFunc(list.all, func(a, b field) int { return b.size() - a.size() }) // the largest first
	for _, body := range list.all {
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
	_, list := fieldsOf(p, true)
	return list.size()
}

// fieldsOf lists the bodies of an event: for reading, or as fields of the returned copy of p, which shares no memory that a change of
// them would touch.
func fieldsOf(p events.Payload, reading bool) (events.Payload, fields) {
	list := fields{reading: reading}
	switch p := p.(type) {
	case *events.TurnRequested:
		c := own(&list, p)
		list.parts(&c.Input.Parts)
		return c, list
	case *events.TurnScheduled:
		c := own(&list, p)
		list.parts(&c.Input.Parts)
		return c, list
	case *events.InputInjected:
		c := own(&list, p)
		list.parts(&c.Parts)
		return c, list
	case *events.ModelReplied:
		c := own(&list, p)
		list.parts(&c.Parts)
		list.parts(&c.Shown)
		return c, list
	case *events.ModelInterrupted:
		c := own(&list, p)
		list.parts(&c.Parts)
		return c, list
	case *events.ToolReturned:
		c := own(&list, p)
		for i := range items(&list, &c.Results) {
			list.result(&c.Results[i])
		}
		return c, list
	case *events.ToolResolved:
		c := own(&list, p)
		list.result(&c.Result)
		return c, list
	case *events.ToolResultScheduled:
		c := own(&list, p)
		list.result(&c.Result)
		return c, list
	case *events.ToolNestedReturned:
		c := own(&list, p)
		list.data(&c.Args, &c.Blob)
		list.result(&c.Result)
		return c, list
	case *events.ToolApprovalAsked:
		c := own(&list, p)
		list.data(&c.Args, &c.Blob)
		return c, list
	case *events.ModelCompleted:
		c := own(&list, p)
		list.parts(&c.Parts)
		return c, list
	case *events.TurnPrepared:
		c := own(&list, p)
		for i := range items(&list, &c.View) {
			list.parts(&c.View[i].Message.Parts)
		}
		return c, list
	case *events.PluginStateSaved:
		c := own(&list, p)
		list.data(&c.State, &c.Blob)
		for i := range items(&list, &c.Artifacts) {
			list.data(&c.Artifacts[i].Data, &c.Artifacts[i].Blob)
		}
		return c, list
	case *events.FrameStateSaved:
		c := own(&list, p)
		list.data(&c.State, &c.Blob)
		return c, list
	case *events.GraphAppended:
		c := own(&list, p)
		list.nodes(&c.Nodes)
		return c, list
	case *events.FrameOpened:
		c := own(&list, p)
		list.nodes(&c.Nodes)
		return c, list
	}
	return p, list
}

// fields are the bodies of one event.
type fields struct {
	all     []field
	reading bool // else its methods copy a list before they add its elements
}

func (l *fields) data(data *[]byte, ref *events.BlobRef) {
	l.all = append(l.all, field{data: data, ref: ref})
}

func (l *fields) result(r *events.ToolResult) {
	l.all = append(l.all, field{text: &r.Text, ref: &r.Blob}, field{text: &r.Full, ref: &r.FullBlob})
	l.parts(&r.Attachments)
	l.parts(&r.Unseen)
}

func (l *fields) nodes(nodes *[]events.NewNode) {
	for i := range items(l, nodes) {
		n := &(*nodes)[i]
		l.parts(&n.Message.Parts)
		l.data(&n.Body, &n.Blob)
	}
}

func (l *fields) parts(parts *[]events.Part) {
	for i := range items(l, parts) {
		l.all = append(l.all, partBody(&(*parts)[i]))
	}
}

// checkRefs refuses malformed references.
func (l fields) checkRefs() error {
	for i := range l.all {
		if ref := l.all[i].ref; !ref.IsZero() {
			if err := ref.Validate("blob"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l fields) size() int {
	n := 0
	for i := range l.all {
		n += l.all[i].size()
	}
	return n
}

func partBody(p *events.Part) field {
	if p.Kind == events.PartToolCall {
		return field{data: &p.Args, ref: &p.Blob}
	}
	return field{text: &p.Text, ref: &p.Blob}
}

// own is what the fields of an event belong to: a copy of p, or p for reading.
func own[T any](l *fields, p *T) *T {
	if l.reading {
		return p
	}
	c := *p
	return &c
}

// items are the elements of a list of an event: of the copy that replaces it, or its own for reading.
func items[T any](l *fields, list *[]T) []T {
	if !l.reading {
		*list = slices.Clone(*list)
	}
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
