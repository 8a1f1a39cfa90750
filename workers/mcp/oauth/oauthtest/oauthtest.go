// Package oauthtest has an authorization server for tests.
package oauthtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// Guarded is an MCP server at /mcp behind an authorization server, which allows every login and gives each refresh token once. Tokens end
// with the number of their grant; the last access token alone is taken.
type Guarded struct {
	*httptest.Server
	// Change changes the answer at a path, which it may refuse by another status, or the header of a challenge. nil: none.
	Change  func(path string, request *http.Request, body map[string]any) (status int)
	mu      sync.Mutex
	grants  int // given
	revoked int // up to this one, access tokens are not taken
	short   bool
	asked   url.Values
}

// Guard guards a handler; nil: one that answers nothing.
func Guard(t testing.TB, next http.Handler) *Guarded {
	t.Helper()
	g := new(Guarded)
	answer := func(w http.ResponseWriter, r *http.Request, status int, body map[string]any) {
		if g.Change != nil {
			status = cmp.Or(g.Change(r.URL.Path, r, body), status)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		want := fmt.Sprintf("Bearer access-secret-%d", g.grants)
		revoked := g.grants == g.revoked
		g.mu.Unlock()
		if revoked || r.Header.Get("Authorization") != want {
			challenge := map[string]any{"header": `Bearer resource_metadata="` + g.URL + `/resource", scope="notes"`}
			if g.Change != nil {
				_ = g.Change(r.URL.Path, r, challenge)
			}
			w.Header().Set("WWW-Authenticate", fmt.Sprint(challenge["header"]))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if next != nil {
			next.ServeHTTP(w, r)
		}
	})
	mux.HandleFunc("/resource", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, http.StatusOK, map[string]any{"resource": g.URL + "/mcp", "authorization_servers": []string{g.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, http.StatusOK, map[string]any{
			"issuer": g.URL, "authorization_endpoint": g.URL + "/authorize", "token_endpoint": g.URL + "/token", "registration_endpoint": g.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"},
		})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var client map[string]any
		_ = json.NewDecoder(r.Body).Decode(&client)
		client["client_id"], client["token_endpoint_auth_method"] = "c1", "none"
		answer(w, r, http.StatusCreated, client)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked = r.URL.Query()
		g.mu.Unlock()
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?code=once&state="+url.QueryEscape(r.FormValue("state")), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") != fmt.Sprintf("refresh-secret-%d", g.grants) {
			answer(w, r, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "refresh-secret is gone"})
			return
		}
		g.grants++
		lasts := 3600
		if g.short {
			lasts = 1 // less than the time before the end at which it counts as expired
		}
		answer(w, r, http.StatusOK, map[string]any{"access_token": fmt.Sprintf("access-secret-%d", g.grants), "refresh_token": fmt.Sprintf("refresh-secret-%d", g.grants), "token_type": "Bearer", "expires_in": lasts})
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

// Revoke makes the access token, and the refresh token too where refresh is set, one that is not taken.
func (g *Guarded) Revoke(refresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked = g.grants
	if refresh {
		g.grants += 7
	}
}

// Short makes access tokens that expire at once, or not.
func (g *Guarded) Short(short bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.short = short
}

// Grants is how many tokens were given.
func (g *Guarded) Grants() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants
}

// Asked is the query of the last request for a login.
func (g *Guarded) Asked() url.Values {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// Browse does what a browser does at an authorization server that allows everything.
func Browse(address string) error {
	answer, err := http.Get(address) //nolint:gosec,noctx // as a browser
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.Body.Close()
}
