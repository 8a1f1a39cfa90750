package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
)

// InlineBytes is the largest body that stays inside an event. Longer ones become blobs.
const InlineBytes = 64 << 10

// spillTotal is how many bytes of bodies one commit carries before shorter ones become blobs too.
const spillTotal = 192 << 10

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

// Spill moves large bodies of an event that is about to be appended to blobs,
// and smaller ones while all together are too large for one event. It returns
// a copy where it changes something; blobs are stored before it returns, so
// that a reference never points nowhere.
func Spill(ctx context.Context, blobs Blobs, p events.Payload) (events.Payload, error) {
	return SpillAbove(ctx, blobs, p, InlineBytes, spillTotal)
}

// SpillAbove is [Spill] with other bounds, in bytes: of one body, and of all
// that stay inside the event together, which is not less than the first.
func SpillAbove(ctx context.Context, blobs Blobs, p events.Payload, inline, all int) (events.Payload, error) {
	if totalSize(bodies(p)) < inline {
		return p, nil
	}
	p = clonePayload(p)
	list := bodies(p)
	for {
		total, largest := 0, -1
		for i := range list {
			total += list[i].size()
			if largest < 0 || list[i].size() > list[largest].size() {
				largest = i
			}
		}
		if largest < 0 || list[largest].size() <= inline && total <= all || list[largest].size() == 0 {
			return p, nil
		}
		ref, err := blobs.PutBlob(ctx, list[largest].body())
		if err != nil {
			return nil, fmt.Errorf("spill %s: %w", p.Kind(), err)
		}
		s := list[largest]
		*s.ref = ref
		if s.text != nil {
			*s.text = ""
		} else {
			*s.data = nil
		}
	}
}

// BodyBytes is the size of the bodies inside an event, about what it adds to a commit.
func BodyBytes(p events.Payload) int { return totalSize(bodies(p)) }

func totalSize(list []spillable) int {
	n := 0
	for i := range list {
		n += list[i].size()
	}
	return n
}

// bodies lists what may be spilled from an event.
func bodies(p events.Payload) []spillable {
	var list []spillable
	switch p := p.(type) {
	case *events.TurnRequested:
		list = partBodies(list, p.Input.Parts)
	case *events.InputInjected:
		list = partBodies(list, p.Parts)
	case *events.ModelReplied:
		list = partBodies(list, p.Parts)
	case *events.ToolReturned:
		for i := range p.Results {
			list = resultBodies(list, &p.Results[i])
		}
	case *events.ToolResolved:
		list = resultBodies(list, &p.Result)
	case *events.ToolNestedReturned:
		list = resultBodies(append(list, spillable{data: &p.Args, ref: &p.Blob}), &p.Result)
	case *events.ToolApprovalAsked:
		list = append(list, spillable{data: &p.Args, ref: &p.Blob})
	case *events.ModelCompleted:
		list = partBodies(list, p.Parts)
	case *events.TurnPrepared:
		for i := range p.View {
			list = partBodies(list, p.View[i].Message.Parts)
		}
	case *events.PluginStateSaved:
		list = append(list, spillable{data: &p.State, ref: &p.Blob})
		for i := range p.Artifacts {
			list = append(list, spillable{data: &p.Artifacts[i].Data, ref: &p.Artifacts[i].Blob})
		}
	case *events.FrameStateSaved:
		list = append(list, spillable{data: &p.State, ref: &p.Blob})
	case *events.GraphAppended:
		list = nodeBodies(list, p.Nodes)
	case *events.FrameOpened:
		list = nodeBodies(list, p.Nodes)
	}
	return list
}

func resultBodies(list []spillable, r *events.ToolResult) []spillable {
	list = append(list, spillable{text: &r.Text, ref: &r.Blob}, spillable{text: &r.Full, ref: &r.FullBlob})
	return partBodies(list, r.Attachments)
}

func nodeBodies(list []spillable, nodes []events.NewNode) []spillable {
	for i := range nodes {
		list = partBodies(list, nodes[i].Message.Parts)
		list = append(list, spillable{data: &nodes[i].Body, ref: &nodes[i].Blob})
	}
	return list
}

func partBodies(list []spillable, parts []events.Part) []spillable {
	for i := range parts {
		if parts[i].Kind == events.PartToolCall {
			list = append(list, spillable{data: &parts[i].Args, ref: &parts[i].Blob})
		} else {
			list = append(list, spillable{text: &parts[i].Text, ref: &parts[i].Blob})
		}
	}
	return list
}

// clonePayload copies p deeply enough that its bodies can be replaced.
func clonePayload(p events.Payload) events.Payload {
	switch p := p.(type) {
	case *events.TurnRequested:
		c := *p
		c.Input.Parts = append([]events.Part(nil), p.Input.Parts...)
		return &c
	case *events.InputInjected:
		c := *p
		c.Parts = append([]events.Part(nil), p.Parts...)
		return &c
	case *events.ModelReplied:
		c := *p
		c.Parts = append([]events.Part(nil), p.Parts...)
		return &c
	case *events.ToolReturned:
		c := *p
		c.Results = append([]events.ToolResult(nil), p.Results...)
		for i := range c.Results {
			c.Results[i].Attachments = append([]events.Part(nil), c.Results[i].Attachments...)
		}
		return &c
	case *events.ToolResolved:
		c := *p
		c.Result.Attachments = append([]events.Part(nil), p.Result.Attachments...)
		return &c
	case *events.ToolNestedReturned:
		c := *p
		c.Result.Attachments = append([]events.Part(nil), p.Result.Attachments...)
		return &c
	case *events.ToolApprovalAsked:
		c := *p
		return &c
	case *events.FrameStateSaved:
		c := *p
		return &c
	case *events.PluginStateSaved:
		c := *p
		c.Artifacts = append([]events.Artifact(nil), p.Artifacts...)
		return &c
	case *events.ModelCompleted:
		c := *p
		c.Parts = append([]events.Part(nil), p.Parts...)
		return &c
	case *events.TurnPrepared:
		c := *p
		c.View = append([]events.ViewItem(nil), p.View...)
		for i := range c.View {
			c.View[i].Message.Parts = append([]events.Part(nil), c.View[i].Message.Parts...)
		}
		return &c
	case *events.GraphAppended:
		c := *p
		c.Nodes = cloneNodes(p.Nodes)
		return &c
	case *events.FrameOpened:
		c := *p
		c.Nodes = cloneNodes(p.Nodes)
		return &c
	}
	return p
}

func cloneNodes(nodes []events.NewNode) []events.NewNode {
	list := append([]events.NewNode(nil), nodes...)
	for i := range list {
		list[i].Message.Parts = append([]events.Part(nil), list[i].Message.Parts...)
	}
	return list
}

// Fill gives every spilled body of the messages back its text. Messages without one are shared, not copied.
func Fill(ctx context.Context, blobs Blobs, messages []events.Message) ([]events.Message, error) {
	var out []events.Message
	for i := range messages {
		for j := range messages[i].Parts {
			if messages[i].Parts[j].Blob.IsZero() {
				continue
			}
			if out == nil {
				out = append([]events.Message(nil), messages...)
			}
			if &out[i].Parts[0] == &messages[i].Parts[0] {
				out[i].Parts = append([]events.Part(nil), messages[i].Parts...)
			}
			if err := fillPart(ctx, blobs, &out[i].Parts[j]); err != nil {
				return nil, err
			}
		}
	}
	if out == nil {
		return messages, nil
	}
	return out, nil
}

func fillPart(ctx context.Context, blobs Blobs, p *events.Part) error {
	body, err := blobs.Blob(ctx, p.Blob)
	if err != nil {
		return fmt.Errorf("fill %s part: %w", p.Kind, err)
	}
	p.Blob = events.BlobRef{}
	if p.Kind == events.PartToolCall {
		p.Args = body
	} else {
		p.Text = string(body)
	}
	return nil
}
