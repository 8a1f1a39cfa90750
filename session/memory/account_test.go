package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

const mib = 1 << 20

// TestAccounts: the first bytes of an account wait, and further ones shortly, also those of a part of it; what is reserved is not taken again;
// all come back at the end, and the account may then have no more than a share, which it gives back at once.
func TestAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := memory.NewPool(10*mib, 8*mib)
		other, a := p.Account("other", 0), p.Account("a", 0)
		ctx := a.In(t.Context())
		runtest.NoError(t, memory.Take(other.In(t.Context()), 8*mib))
		waited := make(chan error, 1)
		go func() { waited <- a.Reserve(ctx, 4*mib) }() // ends when it has its bytes
		synctest.Wait()
		if a.Holds() {
			t.Error("4 MiB beside 8 of 10: it did not wait")
		}
		other.GiveBack()
		if err := <-waited; err != nil || !a.Holds() {
			t.Fatalf("once they are free: got %v", err)
		}
		part, inner := memory.Part(ctx)
		for _, c := range []struct {
			what  string
			bytes int64
			want  error
		}{{"reserved", 4 * mib, nil}, {"beyond it", 3 * mib, nil}, {"beyond its share", 2 * mib, api.ErrMemory}, {"more than a share", 9 * mib, events.ErrTooLarge}, {"a negative size", -1, events.ErrTooLarge}} {
			runtest.WantError(t, c.what, memory.Take(ctx, c.bytes), c.want)
		}
		if err := memory.Take(part, mib); err != nil || !inner.Holds() {
			t.Errorf("a part: got %v", err)
		}
		if err := memory.Take(part, mib); !errors.Is(err, api.ErrMemory) {
			t.Errorf("a part beyond the share: got %v", err)
		}
		inner.Close()
		part, inner = memory.Part(ctx)
		runtest.WantError(t, "a part that reserves", inner.Reserve(part, mib), nil)
		inner.Return(mib)
		began := time.Now()
		if err := memory.Take(memory.Now(ctx), 2*mib); !errors.Is(err, api.ErrMemory) || time.Since(began) != 0 {
			t.Errorf("at once or not at all: got %v after %s", err, time.Since(began))
		}
		go func() { waited <- memory.Take(part, 2*mib) }() // ends when it has its bytes
		synctest.Wait()
		a.GiveBack()
		if err := <-waited; err != nil || time.Since(began) != 0 {
			t.Errorf("further bytes, which come soon: got %v", err)
		}
		inner.Close()
		inner.Return(mib) // it has none
		if a.Holds() {
			t.Error("all was returned, and it has some")
		}
		runtest.WantError(t, "after the part", memory.Take(ctx, mib), nil)
		a.Close()
		for range 2 {
			if err := memory.Take(ctx, 8*mib); err != nil || a.Holds() {
				t.Errorf("after its end: got %v", err)
			}
		}
		if err := memory.Take(ctx, 9*mib); !errors.Is(err, events.ErrTooLarge) {
			t.Errorf("more than a share, after its end: got %v", err)
		}
		runtest.WantError(t, "without an account", memory.Take(t.Context(), 1<<50), nil)
	})
}

// TestPatience: an account waits for as long as it may.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := memory.NewPool(mib, mib)
		a, b := p.Account("a", 0), p.Account("b", time.Second)
		runtest.NoError(t, memory.Take(a.In(t.Context()), mib))
		began := time.Now()
		if err := memory.Take(b.In(t.Context()), mib); !errors.Is(err, api.ErrMemory) || time.Since(began) != time.Second {
			t.Errorf("after %s: got %v", time.Since(began), err)
		}
	})
}
