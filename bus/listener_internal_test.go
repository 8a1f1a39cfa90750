package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// said is a client's word, as the server names its user.
func said(user, token, end string) *nats.Msg {
	h := nats.Header{StreamHeader: {token}}
	if user != "" {
		h[headerCaller] = []string{fmt.Sprintf(`{"user":%q}`, user)}
	}
	if end != "" {
		h[headerEnd] = []string{end}
	}
	return &nats.Msg{Header: h}
}

// TestListenersOfManyUsers has a user say what it likes, of its own requests and of another's: the other's neither ends nor
// is forgotten, and what is kept is bounded.
func TestListenersOfManyUsers(t *testing.T) {
	t.Parallel()
	l := newListeners(time.Hour)
	ctx, forget, ok := l.watch(t.Context(), listenerKey{"alice", "a"})
	defer forget()
	if !ok {
		t.Fatal("got no chunks for alice")
	}
	l.received(said("alice", "early", "1"))
	l.received(said("mallory", "a", "1"))
	l.received(said("", "a", "1"))
	for i := range 10 * maxEnded {
		l.received(said("mallory", fmt.Sprint("t", i), "1"))
	}
	if ctx.Err() != nil {
		t.Errorf("got %v, want that alice's request goes on", context.Cause(ctx))
	}
	if n := len(l.ended["mallory"]); n != maxEnded {
		t.Errorf("got %d tokens of mallory, want %d", n, maxEnded)
	}
	early, forgetEarly, _ := l.watch(t.Context(), listenerKey{"alice", "early"})
	defer forgetEarly()
	if !errors.Is(context.Cause(early), errNotListening) {
		t.Errorf("got %v, want that the request which ended before it came has ended", context.Cause(early))
	}
	l.received(said("alice", "a", "1"))
	if !errors.Is(context.Cause(ctx), errNotListening) {
		t.Errorf("got %v, want that alice's own word ends it", context.Cause(ctx))
	}
	for i := range 2 * maxEndedUsers {
		l.received(said(fmt.Sprint("u", i), "t", "1"))
	}
	if n := len(l.ended); n > maxEndedUsers {
		t.Errorf("got tokens of %d users, want at most %d", n, maxEndedUsers)
	}
}

// TestSilenceInAFlood has the words of a client lost among those of another: its request ends only after a silence in which none is lost.
func TestSilenceInAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const within = 10 * time.Second
		l, lost := newListeners(within), 0
		l.dropped = func() int { return lost }
		ctx, forget, _ := l.watch(t.Context(), listenerKey{"alice", "a"})
		defer forget()
		for range 3 {
			time.Sleep(within / 2) //nolint:forbidigo // in a bubble
			l.mu.Lock()
			lost++
			l.mu.Unlock()
			time.Sleep(within / 2) //nolint:forbidigo // in a bubble
			synctest.Wait()
			if ctx.Err() != nil {
				t.Fatalf("got %v, want that the request goes on", context.Cause(ctx))
			}
		}
		time.Sleep(within) //nolint:forbidigo // in a bubble
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), errNotListening) {
			t.Errorf("got %v, want that the request has ended", context.Cause(ctx))
		}
	})
}
