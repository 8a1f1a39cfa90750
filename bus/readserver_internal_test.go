package bus

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestFirstSubjects reads a list of subjects that is larger than a message, page by page as the client library does: it gets all
// subjects, and what else the answer has.
func TestFirstSubjects(t *testing.T) {
	t.Parallel()
	const limit, all = 1000, 100
	want := make(map[string]uint64)
	for i := range all {
		want[fmt.Sprintf("lash.archive.%03d", i)] = uint64(i)
	}
	got := make(map[string]uint64)
	for pages := 0; len(got) < all; pages++ {
		page := make(map[string]uint64)
		for i := len(got); i < all; i++ {
			name := fmt.Sprintf("lash.archive.%03d", i)
			page[name] = want[name]
		}
		answer, err := json.Marshal(map[string]any{"total": all, "offset": len(got), "created": "now", "state": map[string]any{"messages": all, "subjects": page}})
		runtest.NoError(t, err)
		data, err := firstSubjects(answer, limit)
		if err != nil || len(data) > limit {
			t.Fatalf("page %d: got %d bytes, %v, want at most %d", pages, len(data), err, limit)
		}
		var read struct {
			Total   int
			Created string
			State   struct {
				Messages int
				Subjects map[string]uint64
			}
		}
		if err := json.Unmarshal(data, &read); err != nil || read.Total != all || read.Created != "now" || read.State.Messages != all || len(read.State.Subjects) == 0 {
			t.Fatalf("page %d: got %s, %v", pages, data, err)
		}
		maps.Copy(got, read.State.Subjects)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
