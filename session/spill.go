package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// InlineBytes is the largest body that stays inside an event. Longer ones become blobs.
const InlineBytes = 64 << 10

// InlineTotal is how many bytes of bodies stay inside one event before shorter ones become blobs too.
const InlineTotal = 192 << 10

// Blobs keeps bodies outside the log, by content.
type Blobs interface {
	PutBlob(ctx context.Context, body []byte) (events.BlobRef, error)
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// spillable is a body with its place in an event.
type spillable struct {
	text *string
	data *[]byte
	ref  *events.BlobRef
}

func (s spillable) body() []byte {
	if s.text != nil {
		return []byte(*s.text)
	}
	return *s.data
}

func (s spillable) size() int {
	if s.text != nil {
		return len(*s.text)
	}
	return len(*s.data)
}

func (s spillable) set(body []byte, ref events.BlobRef) {
	*s.ref = ref
	if s.text != nil {
		*s.text = string(body)
	} else {
		*s.data = body
	}
}

// fill is the inverse of spilling it; what was not spilled stays.
func (s spillable) fill(ctx context.Context, blobs BlobReader) error {
	if s.ref.IsZero() {
		return nil
	}
	body, err := blobs.Blob(ctx, *s.ref)
	if err == nil {
		s.set(body, events.BlobRef{})
	}
	return err
}

// Spill moves large bodies of an event that is about to be appended to blobs,
// and smaller ones while all together are too large for one event. It returns
// a copy where it changes something; blobs are stored before it returns, so
// that a reference never points nowhere.
func Spill(ctx context.Context, blobs Blobs, p events.Payload) (events.Payload, error) {
	return SpillAbove(ctx, blobs, p, InlineBytes, InlineTotal)
}

// SpillAbove is [Spill] with other bounds, in bytes: of one body, and of all
// that stay inside the event together, which is not less than the first.
func SpillAbove(ctx context.Context, blobs Blobs, p events.Payload, inline, all int) (events.Payload, error) {
	c, list := bodiesOf(p)
	if list.size() < inline {
		return p, nil
	}
	left := list.size()
	slices.SortStableFunc(list, func(a, b spillable) int { return b.size() - a.size() }) // the largest first
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

// BodyBytes is the size of the bodies inside an event, about what it adds to a commit.
func BodyBytes(p events.Payload) int {
	_, list := bodiesOf(p)
	return list.size()
}

// bodiesOf lists what may be spilled from an event: places in a copy of p, which is deep
// enough that they can be replaced.
func bodiesOf(p events.Payload) (events.Payload, bodies) {
	var list bodies
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

// bodies of one event. What its methods add they take out of shared memory first.
type bodies []spillable

func (l *bodies) data(data *[]byte, ref *events.BlobRef) {
	*l = append(*l, spillable{data: data, ref: ref})
}

func (l *bodies) result(r *events.ToolResult) {
	*l = append(*l, spillable{text: &r.Text, ref: &r.Blob}, spillable{text: &r.Full, ref: &r.FullBlob})
	l.parts(&r.Attachments)
}

func (l *bodies) nodes(nodes *[]events.NewNode) {
	for i := range unshare(nodes) {
		n := &(*nodes)[i]
		l.parts(&n.Message.Parts)
		l.data(&n.Body, &n.Blob)
	}
}

func (l *bodies) parts(parts *[]events.Part) {
	for i := range unshare(parts) {
		*l = append(*l, partBody(&(*parts)[i]))
	}
}

func (l bodies) size() int {
	n := 0
	for i := range l {
		n += l[i].size()
	}
	return n
}

func partBody(p *events.Part) spillable {
	if p.Kind == events.PartToolCall {
		return spillable{data: &p.Args, ref: &p.Blob}
	}
	return spillable{text: &p.Text, ref: &p.Blob}
}

// unshare replaces a list by a copy.
func unshare[T any](list *[]T) []T {
	*list = append([]T(nil), *list...)
	return *list
}

// Body is data, or what the reference points at.
func Body(ctx context.Context, blobs BlobReader, data []byte, ref events.BlobRef) ([]byte, error) {
	if ref.IsZero() {
		return data, nil
	}
	return blobs.Blob(ctx, ref)
}
