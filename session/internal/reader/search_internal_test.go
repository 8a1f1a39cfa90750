package reader

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// TestSearchesAtOnce: a search waits while as many others run as a process has at a time, until its context ends or one of them does.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	r, err := New(bustest.Start(t), 0, 0, 0)
	runtest.NoError(t, err)
	q := api.SearchQuery{Query: index.Query{Texts: []string{"x"}}}
	for range searchesAtOnce() {
		r.searches.running <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = r.Search(ctx, q)
	runtest.WantError(t, "while others run", err, context.DeadlineExceeded)
	<-r.searches.running
	for range 2 { // each ends
		_, err = r.Search(t.Context(), q)
		runtest.WantError(t, "after one ended", err, nil)
	}
}

// TestSearchesOfCallers: a caller with many searches that wait delays another caller's by one at most, and leaves nothing behind.
func TestSearchesOfCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, as := newSearches(), func(name string) context.Context {
			return api.WithCaller(t.Context(), api.Caller{Name: name}, api.RightRead, "")
		}
		const takes, many = 5 * time.Second, 64
		var wait sync.WaitGroup
		search := func(ctx context.Context) error {
			leave, err := s.enter(ctx)
			if err == nil {
				time.Sleep(takes) //nolint:forbidigo // in a bubble
				leave()
			}
			return err
		}
		for range many {
			wait.Go(func() {
				runtest.WantError(t, "search", search(as("alice")), nil)
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := search(as("bob")); err != nil || time.Since(began) > 2*takes {
			t.Errorf("beside %d searches of another caller: got %s, %v, want %s at most", many, time.Since(began), err, 2*takes)
		}
		ctx, cancel := context.WithTimeout(as("alice"), time.Second)
		defer cancel()
		runtest.WantError(t, "an own one", search(ctx), context.DeadlineExceeded)
		wait.Wait()
		if len(s.callers) > 0 || len(s.running) > 0 {
			t.Errorf("got %d callers, %d searches after the end", len(s.callers), len(s.running))
		}
	})
}
