package call

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// checkRefs refuses attachments that refer to bodies which the session's history does not name: with the result it would name them, and
// so let its readers read bodies of other sessions.
func (d *dispatch) checkRefs(ctx context.Context, parts []events.Part) error {
	var digests []string
	var sizes []int64
	for i := range parts {
		if ref := parts[i].Blob; !ref.IsZero() {
			digests, sizes = append(digests, ref.Digest), append(sizes, ref.Size)
		}
	}
	if len(digests) == 0 {
		return nil
	}
	last, end := outlasting(ctx, hooksGrace) // a cancelled call may still return a result
	defer end()
	refs, err := d.env.Worker.Host.FindBlobs(last, d.at.session, digests...)
	for i := range refs {
		if refs[i].Size != sizes[i] {
			err = api.ErrUnknownBlob
		}
	}
	if errors.Is(err, api.ErrUnknownBlob) {
		err = &plugin.Failure{Class: plugin.ClassInvalidRequest, Code: plugin.CodeUnknownBody, Message: "attachments: " + err.Error()}
	}
	return err
}

// byReference stores the bytes of attachments, and returns parts that refer to them. URLs stay.
func byReference(ctx context.Context, store func(context.Context, []byte) (events.BlobRef, error), parts []events.Part) ([]events.Part, error) {
	var list []events.Part
	for _, p := range parts {
		if media, data, ok := llm.Bytes(p); ok && p.Blob.IsZero() && len(data) > 0 {
			ref, err := store(ctx, data)
			if err != nil {
				return nil, err
			}
			p.MediaType, p.Text, p.Blob = media, "", ref
		}
		list = append(list, p)
	}
	return list, nil
}

// attachments are those of the conversation, for code.
func (d *dispatch) attachments(ctx context.Context) ([]events.Part, error) {
	w, err := d.at.bodies(ctx)
	if err != nil {
		return nil, err
	}
	var list []events.Part
	for i := range w.view.Messages {
		for _, p := range w.view.Messages[i].Parts {
			if p.Kind == events.PartAttachment {
				list = append(list, p)
			}
		}
	}
	return byReference(ctx, d.at.host(d.call.Effect).StoreBody, list)
}
