package reader

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// TestSearchesAtOnce: a search waits while as many others run as a process has at a time, until its context ends or one of them does.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	r, err := New(bustest.Start(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	q := api.SearchQuery{Query: index.Query{Texts: []string{"x"}}}
	for range searchesAtOnce() {
		r.searches <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Search(ctx, q); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others run: got %v, want the deadline", err)
	}
	<-r.searches
	for range 2 { // each ends
		if _, err := r.Search(t.Context(), q); err != nil {
			t.Errorf("after one ended: got %v", err)
		}
	}
}
