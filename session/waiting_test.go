package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
)

// TestWaitingBytes checks the limit on the waiting bytes of a session, over all sorts of waiting content.
func TestWaitingBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	part := events.Part{Kind: events.PartText, Text: strings.Repeat("x", 50<<10)} // stays in the event
	parts := []events.Part{part, part, part}
	asks := func(id string) api.TurnRequest {
		return api.TurnRequest{ID: events.TurnID(id), Input: events.TurnInput{Parts: parts}}
	}
	n := 0
	for n < check.MaxWaitingBytes/(151<<10) { // their overhead is below 1 KiB each
		id, err := fmt.Sprint("t", n), error(nil)
		switch n % 3 {
		case 0:
			_, err = b.Host.Submit(t.Context(), sid, asks(id))
		case 1:
			_, err = b.Host.SubmitAt(t.Context(), sid, soon, asks(id))
		case 2:
			_, err = b.Host.Inject(t.Context(), sid, api.InjectRequest{ID: events.InputID(id), Parts: parts})
		}
		if err != nil {
			t.Fatalf("input %d: %v", n, err)
		}
		n++
	}
	before := b.State()
	for name, do := range map[string]func() error{
		"submit":   func() error { _, err := b.Host.Submit(t.Context(), sid, asks("more")); return err },
		"submitAt": func() error { _, err := b.Host.SubmitAt(t.Context(), sid, soon, asks("more")); return err },
		"inject": func() error {
			_, err := b.Host.Inject(t.Context(), sid, api.InjectRequest{Parts: parts})
			return err
		},
	} {
		limit, ok := errors.AsType[*api.LimitError](do())
		if !ok || limit.Limit != check.MaxWaitingBytes {
			t.Errorf("%s: got %+v, want the limit", name, limit)
		}
	}
	b.unchanged(before, "refused")
	_, err := b.Host.Submit(t.Context(), sid, asks("t0"))
	runtest.WantError(t, "one that waits", err, nil)
}
