package openai

import (
	"testing"

	"github.com/openai/openai-go/v3/responses"
)

// TestItemInManyPiecesIsLinear receives an item in very many pieces: joining them takes linear time.
func TestItemInManyPiecesIsLinear(t *testing.T) {
	const many = 10_000
	for _, kind := range []string{"message", "reasoning"} {
		it := responses.ResponseOutputItemUnion{
			Type: kind, Content: make([]responses.ResponseOutputMessageContentUnion, many), Summary: make([]responses.ResponseReasoningItemSummary, many),
		}
		for n := range many {
			it.Content[n].Text, it.Summary[n].Text = "a", "a"
		}
		if got := testing.AllocsPerRun(1, func() {
			if err := (&item{}).whole(it); err != nil {
				t.Error(err)
			}
		}); got > many/100 {
			t.Errorf("%s: got %v copies of %d pieces, want few", kind, got, many)
		}
	}
}
