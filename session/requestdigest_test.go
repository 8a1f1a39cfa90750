package session_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestRequestDigestIsSalted requests the same twice, and something else with the same key. The digest in the commit is salted.
func TestRequestDigestIsSalted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := api.WithRequestMeta(t.Context(), api.RequestMeta{Key: "k1"})
	for range 2 {
		runtest.NoError(t, b.Host.Grant(ctx, sid, api.GrantRequest{To: "ann", Rights: []events.SessionRight{events.GrantRead}}))
	}
	runtest.WantError(t, "another request with the key", b.Host.Grant(ctx, sid, api.GrantRequest{To: "bob"}), api.ErrDifferent)
	found := 0
	for e, err := range b.Bus.Log().Read(t.Context(), sid, 1) {
		runtest.NoError(t, err)
		if e.Commit.Key == "k1" {
			found++
			if d := e.Commit.Digest; !events.IsSalted(d) || len(d) != len("salted:")+32 || strings.Count(d, ":") != 1 {
				t.Errorf("digest: got %q, want salted: and 32 hex digits", d)
			}
		}
	}
	runtest.Equal(t, "commits with the key", found, 1)
}
