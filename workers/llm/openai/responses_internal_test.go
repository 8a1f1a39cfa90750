package openai

import (
	"runtime"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestItemInManyPiecesIsLinear receives an item in very many pieces: joining them takes linear time.
func TestItemInManyPiecesIsLinear(t *testing.T) {
	const many, most = 100_000, 500 << 20 // copies of copies would be 5 GB
	list := "[" + strings.TrimSuffix(strings.Repeat(`{"text":"a"},`, many), ",") + "]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, _, err := joined(events.PartText, []byte(list), "")
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err != nil || len(text) != many || got > most {
		t.Errorf("got %d pieces with %d bytes of memory and %v, want %d with at most %d", len(text), got, err, many, most)
	}
}
