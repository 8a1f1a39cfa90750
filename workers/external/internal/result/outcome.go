// Package result checks what the programs of plugins answer to calls and hooks, and makes results and directives of it. It
// trusts no program. It has no state of a node.
package result

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// ErrIncomplete reports an outcome whose pieces are not all there: the call is sent again.
var ErrIncomplete = errors.New("pieces of the outcome are missing")

// Pieces assembles the JSON of an outcome. It never has more than [wire.MaxOutcomeBytes].
type Pieces struct {
	data bytes.Buffer
	next int
	err  error
}

// Add takes the next piece.
func (p *Pieces) Add(piece *wire.Piece) {
	switch {
	case p.err != nil:
	case piece.N != p.next:
		p.err = fmt.Errorf("%w: piece %d follows %d", ErrIncomplete, piece.N, p.next-1)
	case len(piece.Data) == 0 || len(piece.Data) > wire.MaxInlineBytes:
		p.err = Refused("piece.data", "has %d bytes, want 1 to %d", len(piece.Data), wire.MaxInlineBytes)
	case p.data.Len()+len(piece.Data) > wire.MaxOutcomeBytes:
		p.err = Refused("pieces", "have more than %d bytes", wire.MaxOutcomeBytes)
	default:
		p.next++
		p.data.Write(piece.Data)
	}
	if p.err != nil {
		p.data = bytes.Buffer{}
	}
}

// Outcome is the outcome of this many pieces.
func (p *Pieces) Outcome(count int) (*wire.Outcome, error) {
	if p.err == nil && count != p.next {
		p.err = fmt.Errorf("%w: got %d of %d", ErrIncomplete, p.next, count)
	}
	if p.err != nil {
		return nil, p.err
	}
	var o wire.Outcome
	if err := wire.Decode(p.data.Bytes(), &o); err != nil {
		return nil, Refused("pieces", "are no JSON of an outcome: %s", err)
	}
	return &o, nil
}

// Refused is the error of a field of an outcome.
func Refused(field, format string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
}

// Check refuses an outcome beyond the limits of the protocol, or with unknown words.
func Check(o *wire.Outcome) error {
	if f := o.Failure; f != nil {
		if o.Text != "" || len(o.Attachments) > 0 || o.Control != "" || len(o.Emit) > 0 {
			return Refused("failure", "excludes text, attachments, control and emit")
		}
		return checkFailure(f)
	}
	switch o.Control {
	case events.ControlNone, events.ControlFinish, events.ControlFail:
	default:
		return Refused("control", "unknown %q, want finish or fail", events.Clip(string(o.Control), 64, "..."))
	}
	if len(o.Attachments) > wire.MaxAttachmentCount {
		return Refused("attachments", "are %d, limit is %d", len(o.Attachments), wire.MaxAttachmentCount)
	}
	sum := 0
	for i := range o.Attachments {
		a := &o.Attachments[i]
		sum += len(a.Data)
		if err := wire.CheckMediaType(fmt.Sprintf("attachments[%d].media_type", i), a.MediaType); err != nil {
			return err
		}
		ref := events.BlobRef{Digest: a.Digest, Size: a.Size}
		switch {
		case !ref.IsZero() && len(a.Data) > 0:
			return Refused(fmt.Sprintf("attachments[%d].data", i), "is not allowed with a digest")
		case !ref.IsZero():
			if err := ref.Validate(fmt.Sprintf("attachments[%d]", i)); err != nil {
				return err
			}
		case len(a.Data) == 0 || len(a.Data) > wire.MaxAttachment:
			return Refused(fmt.Sprintf("attachments[%d].data", i), "has %d bytes, want 1 to %d", len(a.Data), wire.MaxAttachment)
		case sum > wire.MaxAttachments:
			return Refused("attachments", "have more than %d bytes", wire.MaxAttachments)
		}
	}
	return nil
}

func checkFailure(f *wire.Failure) error {
	classes := []string{
		"", plugin.ClassInvalidRequest, plugin.ClassUnavailable, plugin.ClassPermissionDenied, plugin.ClassTimeout,
		plugin.ClassExecution, plugin.ClassExternal, plugin.ClassResourceLimit, plugin.ClassInternal,
	}
	switch {
	case !slices.Contains(classes, f.Class):
		return Refused("failure.class", "unknown %q, known are %s", events.Clip(f.Class, 64, "..."), strings.Join(classes[1:], ", "))
	case len(f.Code) > events.MaxIDBytes:
		return Refused("failure.code", "has %d bytes, limit is %d", len(f.Code), events.MaxIDBytes)
	case len(f.Message) > wire.MaxFailureMessage:
		return Refused("failure.message", "has %d bytes, limit is %d", len(f.Message), wire.MaxFailureMessage)
	}
	return nil
}

// Parts are the attachments of an outcome as parts of a message.
func Parts(list []wire.Attachment) []events.Part {
	var out []events.Part
	for i := range list {
		out = append(out, events.Part{
			Kind: events.PartAttachment, MediaType: list[i].MediaType, Text: base64.StdEncoding.EncodeToString(list[i].Data),
			Blob: events.BlobRef{Digest: list[i].Digest, Size: list[i].Size},
		})
	}
	return out
}

// Of is the tool's result of an outcome.
func Of(o *wire.Outcome) (plugin.Result, error) {
	if f := o.Failure; f != nil {
		return plugin.Result{}, &plugin.Failure{Class: cmp.Or(f.Class, plugin.ClassExecution), Code: f.Code, Message: f.Message, Safe: f.Safe}
	}
	r := plugin.Result{Text: o.Text, Attachments: Parts(o.Attachments), Control: o.Control, Emit: o.Emit}
	if o.Cancelled { // by itself, as when the instance stops
		r.Outcome, r.Control, r.Emit = events.OutcomeCancelled, "", nil
	}
	return r, nil
}
