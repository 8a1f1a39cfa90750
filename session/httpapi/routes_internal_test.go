package httpapi

import (
	"slices"
	"testing"

	"github.com/lash-go/lash/session/operation"
)

// TestRoutesOfTable checks that exactly the rows of the table of operations with an HTTP path are served.
func TestRoutesOfTable(t *testing.T) {
	t.Parallel()
	want, have := []string{"document"}, []string(nil)
	for _, r := range operation.All() {
		if r.Route != "" {
			want = append(want, r.ID)
		}
	}
	for _, r := range routes() {
		have = append(have, r.name)
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("got routes %v, want %v", have, want)
	}
}
