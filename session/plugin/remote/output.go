package remote

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// outcomeOf is the outcome of a tool that returned.
func outcomeOf(r *plugin.Result, err error) *wire.Outcome {
	switch {
	case err != nil:
		return failed(err)
	case r.Pending || r.Control == events.ControlSwitch || r.Control == events.ControlSubmit || r.Outcome == events.OutcomeLost:
		return failed(&plugin.Failure{
			Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed,
			Message: "the tool returned a pending or lost result, a switch of frames or a submit, which a plugin of its own process cannot",
		})
	case r.Outcome == events.OutcomeFailure:
		return &wire.Outcome{Failure: &wire.Failure{Class: r.Class, Code: r.Code, Message: clip(r.Text)}}
	}
	o := &wire.Outcome{Text: r.Text, Control: r.Control, Emit: r.Emit, Cancelled: r.Outcome == events.OutcomeCancelled}
	if n := len(r.Attachments); n > wire.MaxAttachmentCount {
		return failed(&plugin.Failure{Class: plugin.ClassResourceLimit, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf(
			"attachments: the result has %d, limit is %d", n, wire.MaxAttachmentCount)})
	}
	sum := 0
	for i := range r.Attachments {
		a, err := attachmentOf(&r.Attachments[i])
		sum += len(a.Data)
		if err == nil && (len(a.Data) > wire.MaxAttachment || sum > wire.MaxAttachments) {
			err = &plugin.Failure{Class: plugin.ClassResourceLimit, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf(
				"attachments[%d]: has %d bytes, limit is %d, and %d for all", i, len(a.Data), wire.MaxAttachment, wire.MaxAttachments)}
		}
		if err != nil {
			return failed(err)
		}
		o.Attachments = append(o.Attachments, a)
	}
	return o
}

// attachmentOf converts a part: it has a reference, or its text is base64, or a URL with base64 data.
func attachmentOf(part *events.Part) (wire.Attachment, error) {
	if ref := part.Blob; part.Kind == events.PartAttachment && !ref.IsZero() && part.Text == "" {
		return wire.Attachment{MediaType: part.MediaType, Digest: ref.Digest, Size: ref.Size}, nil
	}
	media, text := part.MediaType, part.Text
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		media, text, _ = strings.Cut(rest, ";base64,")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if part.Kind != events.PartAttachment || err != nil || len(data) == 0 {
		return wire.Attachment{}, &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: "an attachment of the result is no part with base64 data or a reference"}
	}
	return wire.Attachment{MediaType: media, Data: data}, nil
}

func failed(err error) *wire.Outcome {
	f := &wire.Failure{Class: plugin.ClassExecution, Message: clip(err.Error())}
	if known, ok := errors.AsType[*plugin.Failure](err); ok {
		f = &wire.Failure{Class: known.Class, Code: known.Code, Message: clip(known.Message), Safe: known.Safe}
	}
	return &wire.Outcome{Failure: f}
}

func clip(s string) string {
	return events.Clip(strings.ToValidUTF8(s, "?"), wire.MaxFailureMessage-8, "...")
}

// encoded are the messages of an outcome, in order. An outcome that cannot be sent becomes a failure; nil is not known.
func encoded(o *wire.Outcome) ([]*wire.Progress, *wire.Outcome) {
	if o == nil {
		return []*wire.Progress{{Forgotten: true}}, nil
	}
	data, err := json.Marshal(o)
	switch {
	case err != nil:
		o = failed(&plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: "the result is no JSON: " + err.Error()})
	case len(data) > wire.MaxOutcomeBytes:
		o = failed(&plugin.Failure{Class: plugin.ClassResourceLimit, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf(
			"the result has %d bytes, limit is %d", len(data), wire.MaxOutcomeBytes)})
	case len(data) > wire.MaxInlineBytes:
		return pieced(data), o
	}
	return []*wire.Progress{{Outcome: o}}, o
}

// pieced cuts the JSON of an outcome.
func pieced(data []byte) (list []*wire.Progress) {
	for len(data) > 0 {
		n := min(len(data), wire.MaxInlineBytes)
		list = append(list, &wire.Progress{Piece: &wire.Piece{N: len(list), Data: data[:n]}})
		data = data[n:]
	}
	return append(list, &wire.Progress{Pieces: len(list)})
}

func (i *Instance) publish(reply string, list []*wire.Progress) {
	for _, p := range list {
		_ = i.send(reply, p)
	}
}
