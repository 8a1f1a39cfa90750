package serve

import (
	"crypto/sha256"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestTakenNames: names of the file of tokens and of users of NATS are no subject's of an issuer, and no user of NATS has a name that histories
// have for what no caller does.
func TestTakenNames(t *testing.T) {
	t.Parallel()
	tokens, err := httpapi.NewTokens([]httpapi.Token{{Name: "me", Digest: sha256.Sum256([]byte("secret")), Scope: api.ScopeRead}})
	runtest.NoError(t, err)
	is := taken(tokens, map[string]api.Reach{"host@acme": {}})
	for name, want := range map[string]bool{"me": true, "host": true, "host@acme": false, "alice": false} {
		if is(name) != want {
			t.Errorf("%s: got taken %t, want %t", name, !want, want)
		}
	}
	if err := tokens.Replace(nil); err != nil || is("me") {
		t.Errorf("after its line was removed: got taken %t, %v", is("me"), err)
	}
	for user, want := range map[string]bool{"alice@acme": true, "timer@acme": false, "Retention@acme": false, "lash-node@acme": false, "alice": false, "a b@acme": false} {
		if err := checkUser(user); (err == nil) != want {
			t.Errorf("%s: got %v, want accepted %t", user, err, want)
		}
	}
}
