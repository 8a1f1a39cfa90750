package session

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// MaxReasonBytes bounds the reason and the origin of a cancel, and the reason of a close, an erase and a
// frame. The reason of a close travels in the commit that ends all that waits in the session, and
// those of cancels stay in the state while their turns wait.
const MaxReasonBytes = 1000

func checkReason(field, text string) error {
	if len(text) > MaxReasonBytes {
		return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", len(text), MaxReasonBytes), Err: events.ErrTooLarge}
	}
	return nil
}

// checkCount refuses a list of more entries than there can be any use of: each costs a look at the session.
func checkCount(field string, n, most int) error {
	if n > most {
		return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d entries, limit is %d", n, most), Err: events.ErrTooLarge}
	}
	return nil
}

// MaxToolNames is how many tools one request sets the level of.
const MaxToolNames = 4096

// MaxWaitingBytes bounds the inputs that wait in a session, of turns in the queue
// and for their time, and injected ones, beside what of them is in blobs: all of
// them are in the state, which every worker of the session holds, and in its
// snapshot. An input counts with 256 bytes more than its texts and JSON, a part of it with 128.
const MaxWaitingBytes = 16 << 20

// What the snapshot has beside the texts of an input and of a part of it: ids, tags, references.
const (
	inputExtra = 256
	partExtra  = 128
)

// room refuses a turn where as many wait, in the queue and for their time, as may.
func (h *Host) room(s *projector.State, input *events.TurnInput) error {
	if len(s.Queue)+len(s.Scheduled) >= h.maxQueued {
		return &api.LimitError{What: "queued turns", Limit: h.maxQueued}
	}
	return roomFor(s, inputBytes(input))
}

// roomFor refuses an input of that size where what waits would be too much with it.
func roomFor(s *projector.State, size int) error {
	for i := range s.Queue {
		size += inputBytes(&s.Queue[i].Input) + len(s.Queue[i].Trace.State)
	}
	for i := range s.Scheduled {
		size += inputBytes(&s.Scheduled[i].Input) + len(s.Scheduled[i].Trace.State)
	}
	for i := range s.Inputs {
		size += partsBytes(s.Inputs[i].Parts)
	}
	if size > MaxWaitingBytes {
		return &api.LimitError{What: "bytes of inputs that wait", Limit: MaxWaitingBytes}
	}
	return nil
}

func inputBytes(in *events.TurnInput) int {
	n := partsBytes(in.Parts) + len(in.Output.Schema) + len(in.Options) + len(in.Extension.Type) + len(in.Extension.Body)
	for _, stop := range in.Generation.Sampling.Stop {
		n += len(stop)
	}
	for i := range in.Layers {
		n += partExtra + len(in.Layers[i].Title) + len(in.Layers[i].Content)
	}
	for id, text := range in.Plugins {
		n += len(id) + len(text)
	}
	return n
}

func partsBytes(parts []events.Part) int {
	n := inputExtra
	for i := range parts {
		p := &parts[i]
		n += partExtra + len(p.Text) + len(p.Args) + len(p.Meta) + len(p.Call) + len(p.Tool) + len(p.MediaType)
	}
	return n
}
