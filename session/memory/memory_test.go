package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

// TestShares: who has its share waits for its own bytes and keeps nobody waiting; who waits for the pool goes before those behind it.
func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := memory.NewPool(100, 60)
		take := func(caller string, bytes int64) (got *func()) {
			got = new(func())
			go func() { // ends when it has its bytes
				give, err := p.Take(t.Context(), caller, bytes)
				if err != nil {
					t.Error(err)
				}
				*got = give
			}()
			synctest.Wait()
			return got
		}
		a := take("a", 60)
		again := take("a", 1) // a has its share
		b := take("b", 40)    // not behind a
		large := take("c", 60)
		small := take("d", 1) // behind c, which waits for the pool
		for name, want := range map[string]struct {
			got  *func()
			want bool
		}{"a": {a, true}, "again": {again, false}, "b": {b, true}, "large": {large, false}, "small": {small, false}} {
			if (*want.got != nil) != want.want {
				t.Errorf("%s: has its bytes %t, want %t", name, *want.got != nil, want.want)
			}
		}
		(*a)()
		synctest.Wait()
		if *again == nil || *large != nil || *small != nil {
			t.Error("after a's bytes: only a's next request fits")
		}
		(*b)()
		synctest.Wait()
		if *large == nil {
			t.Error("after b's bytes: the large request is the next one")
		}
		(*large)()
		(*again)()
		synctest.Wait()
		if *small == nil {
			t.Error("the last request has no bytes")
		}
		(*small)()
	})
}

// TestRefused: more than a share is refused with both numbers, and nobody waits longer than it may.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := memory.NewPool(100, 60)
	if _, err := p.Take(t.Context(), "a", 61); !errors.Is(err, events.ErrTooLarge) || err.Error() != "memory: needs 61 bytes, limit of one caller on this node is 60" {
		t.Errorf("more than a share: got %v", err)
	}
	give, err := takeNow(p, "a", 60)
	runtest.NoError(t, err)
	if _, err := takeNow(p, "a", 1); !errors.Is(err, api.ErrMemory) {
		t.Errorf("a caller with its share: got %v", err)
	}
	give()
	if give, err = takeNow(p, "a", 60); err != nil {
		t.Errorf("after its bytes came back: got %v", err)
	}
	give()
	if give, err = takeNow(nil, "a", 1<<40); err != nil {
		t.Errorf("without a pool: got %v", err)
	}
	give()
}

// TestSums takes and gives at random, with ends of waits: no sum exceeds its limit, and all bytes come back.
func TestSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const all, share = 100, 40
		p := memory.NewPool(all, share)
		type held struct {
			caller string
			bytes  int64
			give   func()
		}
		var list []held
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(list) > 0 && rapid.Bool().Draw(t, "gives") {
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				list[i].give()
				list = append(list[:i], list[i+1:]...)
				continue
			}
			h := held{caller: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "caller"), bytes: rapid.Int64Range(0, share).Draw(t, "bytes")}
			sum, own := int64(0), int64(0)
			for _, other := range list {
				if sum += other.bytes; other.caller == h.caller {
					own += other.bytes
				}
			}
			give, err := takeNow(p, h.caller, h.bytes)
			if fits := sum+h.bytes <= all && own+h.bytes <= share; fits != (err == nil) {
				t.Fatalf("%d bytes of %s beside %d and %d of its own: got %v", h.bytes, h.caller, sum, own, err)
			}
			if h.give = give; err == nil {
				list = append(list, h)
			}
		}
		for _, h := range list {
			h.give()
		}
		for _, caller := range []string{"a", "b"} {
			if _, err := takeNow(p, caller, share); err != nil {
				t.Fatalf("all bytes came back: got %v", err)
			}
		}
	})
}

// takeNow takes bytes without a wait.
func takeNow(p *memory.Pool, caller string, bytes int64) (give func(), err error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return p.Take(ended, caller, bytes)
}
