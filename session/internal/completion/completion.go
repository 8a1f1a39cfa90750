package completion

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// SplitDeltas is a stream whose deltas are no larger than [plugin.MaxDeltaBytes].
func SplitDeltas(stream func(plugin.CompletionDelta)) func(plugin.CompletionDelta) {
	if stream == nil {
		return nil
	}
	return func(d plugin.CompletionDelta) {
		for len(d.Text) > plugin.MaxDeltaBytes {
			piece := cmp.Or(events.Clip(d.Text, plugin.MaxDeltaBytes, ""), d.Text[:plugin.MaxDeltaBytes]) // of what is no UTF-8
			stream(plugin.CompletionDelta{Kind: d.Kind, Text: piece})
			d.Text = d.Text[len(piece):]
		}
		stream(d)
	}
}

// Event returns the event that records a completion, without its reply.
func Event(req plugin.CompletionRequest, source string) (*events.ModelCompleted, error) {
	digest, err := digestOf(req)
	if err == nil && (source == "" || len(source) > events.MaxIDBytes) {
		err = &events.FieldError{Field: "source", Reason: "is empty or too long", Err: events.ErrInvalid}
	}
	return &events.ModelCompleted{Key: ShortKey(cmp.Or(req.Key, digest)), Request: digest, Source: source}, err
}

// Reply returns a recorded reply, with its bodies.
func Reply(ctx context.Context, blobs blob.Reader, p *events.ModelCompleted) (plugin.Completion, error) {
	filled, err := blob.Fill(ctx, blobs, []events.Message{{Parts: p.Parts}})
	if err != nil {
		return plugin.Completion{}, err
	}
	return plugin.Completion{
		Text: filled[0].Text(), Parts: filled[0].Parts, Stop: p.Stop, Model: p.Model, Usage: p.Usage,
	}, nil
}

// Recorded is the reply that a turn recorded under the key of a completion; nil where there is none. A key that stands
// for another request is [api.ErrDifferent].
func Recorded(s *projector.State, turn events.TurnID, fact *events.ModelCompleted) (*events.ModelCompleted, error) {
	t := s.Turn()
	if t == nil || t.ID != turn {
		return nil, nil //nolint:nilnil // nothing is recorded
	}
	switch old := t.DirectReply(fact.Key); {
	case old == nil:
		return nil, nil //nolint:nilnil // nothing is recorded
	case old.Request != fact.Request:
		return nil, fmt.Errorf("key %s: %w", fact.Key, api.ErrDifferent)
	default:
		return &old.ModelCompleted, nil
	}
}

// ShortKey is a key of at most half the length of an id, so that a suffix fits.
func ShortKey(key string) string {
	if len(key) <= events.MaxIDBytes/2 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// digestOf identifies a request in the history.
func digestOf(req plugin.CompletionRequest) (string, error) {
	data, err := json.Marshal(req)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}
