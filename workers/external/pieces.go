package external

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// errIncomplete reports an outcome whose pieces are not all there: the call is sent again.
var errIncomplete = errors.New("pieces of the outcome are missing")

// pieces assembles the JSON of an outcome. It never has more than [wire.MaxOutcomeBytes].
type pieces struct {
	data bytes.Buffer
	next int
	err  error
}

// add takes the next piece.
func (p *pieces) add(piece *wire.Piece) {
	switch {
	case p.err != nil:
	case piece.N != p.next:
		p.err = fmt.Errorf("%w: piece %d follows %d", errIncomplete, piece.N, p.next-1)
	case len(piece.Data) == 0 || len(piece.Data) > wire.MaxInlineBytes:
		p.err = refused("piece.data", "has %d bytes, want 1 to %d", len(piece.Data), wire.MaxInlineBytes)
	case p.data.Len()+len(piece.Data) > wire.MaxOutcomeBytes:
		p.err = refused("pieces", "have more than %d bytes", wire.MaxOutcomeBytes)
	default:
		p.next++
		p.data.Write(piece.Data)
	}
	if p.err != nil {
		p.data = bytes.Buffer{}
	}
}

// outcome is the outcome of this many pieces.
func (p *pieces) outcome(count int) (*wire.Outcome, error) {
	if p.err == nil && count != p.next {
		p.err = fmt.Errorf("%w: got %d of %d", errIncomplete, p.next, count)
	}
	if p.err != nil {
		return nil, p.err
	}
	var o wire.Outcome
	if err := wire.Decode(p.data.Bytes(), &o); err != nil {
		return nil, refused("pieces", "are no JSON of an outcome: %s", err)
	}
	return &o, nil
}

func refused(field, format string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
}

// check refuses an outcome beyond the limits of the protocol, or with unknown words.
func check(o *wire.Outcome) error {
	if f := o.Failure; f != nil {
		if o.Text != "" || len(o.Attachments) > 0 || o.Control != "" || len(o.Emit) > 0 {
			return refused("failure", "excludes text, attachments, control and emit")
		}
		return checkFailure(f)
	}
	switch o.Control {
	case events.ControlNone, events.ControlFinish, events.ControlFail:
	default:
		return refused("control", "unknown %q, want finish or fail", events.Clip(string(o.Control), 64, "..."))
	}
	if len(o.Attachments) > wire.MaxAttachmentCount {
		return refused("attachments", "are %d, limit is %d", len(o.Attachments), wire.MaxAttachmentCount)
	}
	sum := 0
	for i := range o.Attachments {
		a := &o.Attachments[i]
		sum += len(a.Data)
		if err := wire.CheckMediaType(fmt.Sprintf("attachments[%d].media_type", i), a.MediaType); err != nil {
			return err
		}
		switch {
		case len(a.Data) == 0 || len(a.Data) > wire.MaxAttachment:
			return refused(fmt.Sprintf("attachments[%d].data", i), "has %d bytes, want 1 to %d", len(a.Data), wire.MaxAttachment)
		case sum > wire.MaxAttachments:
			return refused("attachments", "have more than %d bytes", wire.MaxAttachments)
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
		return refused("failure.class", "unknown %q, known are %s", events.Clip(f.Class, 64, "..."), strings.Join(classes[1:], ", "))
	case len(f.Code) > events.MaxIDBytes:
		return refused("failure.code", "has %d bytes, limit is %d", len(f.Code), events.MaxIDBytes)
	case len(f.Message) > wire.MaxFailureMessage:
		return refused("failure.message", "has %d bytes, limit is %d", len(f.Message), wire.MaxFailureMessage)
	}
	return nil
}

// parts are the attachments of an outcome as parts of a message.
func parts(list []wire.Attachment) []events.Part {
	var out []events.Part
	for i := range list {
		out = append(out, events.Part{Kind: events.PartAttachment, MediaType: list[i].MediaType, Text: base64.StdEncoding.EncodeToString(list[i].Data)})
	}
	return out
}
