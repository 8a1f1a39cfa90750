package check

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Count refuses a list of more than most entries, as each costs a search in the session.
func Count(field string, n, most int) error {
	if n > most {
		return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d entries, limit is %d", n, most), Err: events.ErrTooLarge}
	}
	return nil
}

// MaxToolNames is how many tools one request sets the level of.
const MaxToolNames = 4096

// MaxWaitingBytes bounds the inputs that wait in a session, without their bodies in blobs: those of turns in the queue
// and of scheduled turns, and injected ones. All of them are in the state, which every worker of the session has in
// memory, and in its snapshot. An input counts with its texts and JSON and 256 bytes, a part of it with 128 bytes more.
const MaxWaitingBytes = 16 << 20

// Bytes of an input and of a part in the snapshot without their texts: ids, tags, references.
const (
	inputExtra = 256
	partExtra  = 128
)

// QueuedTurn refuses a turn where most turns wait, in the queue and scheduled ones. Errors: [*api.LimitError].
func QueuedTurn(s *projector.State, input *events.TurnInput, most int) error {
	if len(s.Queue)+len(s.Scheduled) >= most {
		return &api.LimitError{What: "queued turns", Limit: most}
	}
	return Waiting(s, inputBytes(input))
}

// Waiting refuses an input of size bytes above [MaxWaitingBytes]. Errors: [*api.LimitError].
func Waiting(s *projector.State, size int) error {
	for i := range s.Queue {
		size += inputBytes(&s.Queue[i].Input) + len(s.Queue[i].Trace.State)
	}
	for i := range s.Scheduled {
		size += inputBytes(&s.Scheduled[i].Input) + len(s.Scheduled[i].Trace.State)
	}
	for i := range s.Inputs {
		size += PartsBytes(s.Inputs[i].Parts)
	}
	if size > MaxWaitingBytes {
		return &api.LimitError{What: "bytes of inputs that wait", Limit: MaxWaitingBytes}
	}
	return nil
}

func inputBytes(in *events.TurnInput) int {
	n := PartsBytes(in.Parts) + len(in.Output.Schema) + len(in.Options) + len(in.Extension.Type) + len(in.Extension.Body)
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

// PartsBytes is the size of an input of these parts, for [Waiting].
func PartsBytes(parts []events.Part) int {
	n := inputExtra
	for i := range parts {
		p := &parts[i]
		n += partExtra + len(p.Text) + len(p.Args) + len(p.Meta) + len(p.Call) + len(p.Tool) + len(p.MediaType)
	}
	return n
}

// MaxGrants is how many callers may have a grant of one session.
const MaxGrants = 64
