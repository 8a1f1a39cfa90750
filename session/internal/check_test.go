package internal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
)

// TestOpen has the refusal of each status.
func TestOpen(t *testing.T) {
	t.Parallel()
	for status, want := range map[projector.Status]error{
		projector.StatusOpen: nil, projector.StatusOpening: api.ErrOpening, projector.StatusClosed: api.ErrClosed,
		projector.StatusNone: events.ErrNoSession, projector.StatusErasing: events.ErrNoSession, projector.StatusErased: events.ErrNoSession,
	} {
		s := projector.New("s1")
		s.Status = status
		runtest.WantError(t, fmt.Sprintf("status %q", status), check.Open(s), want)
	}
}

// TestReason accepts 1000 bytes of UTF-8, and names the field of any other text.
func TestReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty": {"", nil}, "longest": {strings.Repeat("a", 1000), nil},
		"long": {strings.Repeat("a", 1001), events.ErrTooLarge}, "no_utf8": {"\xff", events.ErrInvalid},
	} {
		err := events.CheckReason("origin", c.text)
		runtest.WantError(t, name, err, c.want)
		if field, ok := errors.AsType[*events.FieldError](err); c.want != nil && (!ok || field.Field != "origin") {
			t.Errorf("%s: got %v, want the field origin", name, err)
		}
	}
}

// TestLineage accepts 64 ancestors, and refuses one more and a session above itself.
func TestLineage(t *testing.T) {
	t.Parallel()
	l := check.Lineage{"s"}
	for i := range 64 {
		if err := l.Add(events.SessionID(fmt.Sprintf("p%d", i))); err != nil {
			t.Fatalf("ancestor %d: got %v", i+1, err)
		}
	}
	runtest.WantError(t, "ancestor 65", l.Add("p64"), events.ErrInvalid)
	cycle := check.Lineage{"s"}
	runtest.NoError(t, cycle.Add("p"))
	runtest.WantError(t, "the session above itself", cycle.Add("s"), events.ErrInvalid)
}

// TestExtension counts extensions and the bytes of their bodies together.
func TestExtension(t *testing.T) {
	t.Parallel()
	extensions := func(n, size int) *projector.State {
		s := projector.New("s1")
		for range n {
			s.Extensions = append(s.Extensions, events.Extension{Type: "t", Body: make([]byte, size)})
		}
		return s
	}
	for name, c := range map[string]struct {
		s       *projector.State
		size    int
		refused string
	}{
		"last":     {extensions(63, 1), 1, ""},
		"one_more": {extensions(64, 1), 1, "extensions"},
		"full":     {extensions(1, 32<<10), 32 << 10, ""},
		"too_full": {extensions(1, 32<<10), 32<<10 + 1, "bytes of extensions"},
	} {
		err := check.Extension(c.s, events.Extension{Type: "t", Body: make([]byte, c.size)})
		limit, _ := errors.AsType[*api.LimitError](err)
		if (limit == nil) != (c.refused == "") || limit != nil && limit.What != c.refused {
			t.Errorf("%s: got %v, want a limit of %q", name, err, c.refused)
		}
	}
}

// TestQueuedTurn counts queued and scheduled turns together.
func TestQueuedTurn(t *testing.T) {
	t.Parallel()
	s := projector.New("s1")
	s.Queue, s.Scheduled = make([]projector.QueuedTurn, 2), make([]projector.ScheduledTurn, 1)
	runtest.WantError(t, "the fourth turn of 4", check.QueuedTurn(s, &events.TurnInput{}, 4), nil)
	if err := check.QueuedTurn(s, &events.TurnInput{}, 3); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("the fourth turn of 3: got %v, want a limit", err)
	}
}
