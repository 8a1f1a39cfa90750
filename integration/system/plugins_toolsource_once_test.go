package system

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// TestSourceIsAskedOnce adds sources one after the other: each is asked once for its own, with the context of the request,
// and an end of that context is an end of the question.
func TestSourceIsAskedOnce(t *testing.T) {
	t.Parallel()
	type key struct{}
	var requests [2]atomic.Int64
	var seen atomic.Value
	waits := make(chan struct{}, 1)
	counting := func(i int, name string) plugin.SourceFunc {
		return func(ctx context.Context) (*plugin.Tools, error) {
			requests[i].Add(1)
			seen.Store(ctx.Value(key{}) == name)
			return harness.SourceOf(name)(ctx)
		}
	}
	b, id := setupSources(t, map[string]plugin.SourceFunc{
		"one": counting(0, "a"), "two": counting(1, "b"),
		"hangs": func(ctx context.Context) (*plugin.Tools, error) {
			waits <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	for i, source := range []string{"one", "two"} {
		before := requests[0].Load()
		_, err := b.AddToolSource(context.WithValue(b.Ctx, key{}, []string{"a", "b"}[i]), id, source)
		runtest.WantError(t, "add "+source, err, nil)
		runtest.Equal(t, "asked of "+source, requests[i].Load(), 1)
		runtest.Equal(t, source+" sees the request's context", seen.Load(), any(true))
		if i == 1 && requests[0].Load() > before+1 {
			t.Errorf("the source before it was asked %d times, want once at most", requests[0].Load()-before)
		}
		_, err = b.ToolState(b.Ctx, id)
		runtest.WantError(t, "tools", err, nil)
		runtest.Equal(t, "asked of "+source+" when its tools are looked at", requests[i].Load(), 1)
	}
	ctx, cancel := context.WithCancel(b.Ctx)
	go func() {
		<-waits
		cancel()
	}()
	if _, err := b.AddToolSource(ctx, id, "hangs"); err == nil || b.Ctx.Err() != nil {
		t.Errorf("got %v, want that the question ends with its request", err)
	}
}
