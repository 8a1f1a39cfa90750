package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestRequestDigestIsSalted requests the same twice, and something else with the same key. The digest in the commit is salted.
func TestRequestDigestIsSalted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := api.WithRequestMeta(t.Context(), api.RequestMeta{Key: "k1"})
	for range 2 {
		if err := b.Host.Grant(ctx, sid, api.GrantRequest{To: "ann", Rights: []events.SessionRight{events.GrantRead}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Host.Grant(ctx, sid, api.GrantRequest{To: "bob"}); !errors.Is(err, api.ErrDifferent) {
		t.Errorf("another request with the key: got %v, want %v", err, api.ErrDifferent)
	}
	found := 0
	for e, err := range b.Bus.Log().Read(t.Context(), sid, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Commit.Key == "k1" {
			found++
			if d := e.Commit.Digest; !events.IsSalted(d) || len(d) != len("salted:")+32 || strings.Count(d, ":") != 1 {
				t.Errorf("digest: got %q, want salted: and 32 hex digits", d)
			}
		}
	}
	if found != 1 {
		t.Errorf("commits with the key: got %d, want 1", found)
	}
}
