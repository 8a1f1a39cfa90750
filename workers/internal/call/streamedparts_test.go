package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
)

// kept has bodies by their digests alone.
type kept struct{}

func (kept) Blob(context.Context, events.BlobRef) ([]byte, error) { return nil, nil }

func (kept) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
	sum := sha256.Sum256(body)
	return events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}, nil
}

// TestStreamedPartsFit speaks in as many runs of every size as a reply may have: what is kept has all of it, in the order
// of each kind, and its event is not too large.
func TestStreamedPartsFit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ runs, bytes int }{
		{1, 1}, {2, 1}, {maxRuns - 1, 3}, {maxRuns, 3}, {maxRuns + 1, 3}, {maxRuns + 2, 3}, {26_000, 1}, {200_000, 5}, {4 * maxRuns, 700}, {1000, 10_000}, {maxRuns, 65_000}, {300, 100_000},
	} {
		var s streamedParts
		var want [2]strings.Builder
		kinds := [2]events.PartKind{events.PartText, events.PartReasoning}
		for i := range tc.runs {
			text := strings.Repeat(string(rune('a'+i%26)), tc.bytes)
			s.add(kinds[i%2], text)
			want[i%2].WriteString(text)
		}
		p := &events.ModelInterrupted{Prompt: events.PromptRef{Digest: strings.Repeat("0", 64)}, Parts: s.parts(), Provider: strings.Repeat("p", 64), Model: strings.Repeat("m", 128)}
		if got := len(p.Parts); got != min(tc.runs, maxRuns) {
			t.Errorf("%+v: got %d parts, want %d", tc, got, min(tc.runs, maxRuns))
		}
		var got [2]strings.Builder
		for i := range p.Parts {
			if want := kinds[i%2]; p.Parts[i].Kind != want {
				t.Fatalf("%+v: part %d is %s, want %s", tc, i, p.Parts[i].Kind, want)
			}
			got[i%2].WriteString(p.Parts[i].Text)
		}
		if got[0].String() != want[0].String() || got[1].String() != want[1].String() {
			t.Errorf("%+v: something is missing, or stands elsewhere", tc)
		}
		spilled, err := blob.Spill(t.Context(), kept{}, p)
		runtest.NoError(t, err)
		c := &events.Commit{ID: "c", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("t1", spilled)}}
		if data, err := events.Encode(c); err != nil {
			t.Errorf("%+v: got %v, want an event of at most %d bytes, not %d", tc, err, events.MaxEventBytes, len(data))
		}
	}
}
