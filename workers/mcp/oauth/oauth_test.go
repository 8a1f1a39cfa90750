package oauth_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp/oauth"
	"github.com/lash-go/lash/workers/mcp/oauth/oauthtest"
)

// login logs in with a browser, and returns a source.
func login(t *testing.T, g *oauthtest.Guarded, cfg oauth.Config) *oauth.Source {
	t.Helper()
	runtest.NoError(t, oauth.Login(t.Context(), g.URL+"/mcp", cfg, oauth.Person{Show: oauthtest.Browse}))
	return source(t, g, cfg)
}

func source(t *testing.T, g *oauthtest.Guarded, cfg oauth.Config) *oauth.Source {
	t.Helper()
	s, err := oauth.NewSource(g.URL+"/mcp", cfg)
	runtest.NoError(t, err)
	return s
}

func file(t *testing.T) oauth.Config {
	t.Helper()
	return oauth.Config{File: filepath.Join(t.TempDir(), "deep", "tokens.json")}
}

// TestLogin logs in, by a browser and by an address that is pasted; a file that other users may read is refused.
func TestLogin(t *testing.T) {
	t.Parallel()
	pasted := make(chan string, 1)
	for name, p := range map[string]oauth.Person{
		"browser": {Show: oauthtest.Browse},
		"pasted": {Pasted: pasted, Show: func(address string) error {
			at, err := url.Parse(address)
			pasted <- "http://127.0.0.1:1/callback?code=once&state=" + at.Query().Get("state")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, cfg := oauthtest.Guard(t, nil), file(t)
			cfg.Scopes = []string{"more"}
			if token, err := source(t, g, cfg).Token(t.Context()); token != "" || err != nil {
				t.Errorf("before the login: got %q, %v, want neither", token, err)
			}
			runtest.NoError(t, oauth.Login(t.Context(), g.URL+"/mcp", cfg, p))
			if token, err := source(t, g, cfg).Token(t.Context()); token != "access-secret-1" || err != nil {
				t.Errorf("after the login: got %q, %v, want the first token", token, err)
			}
			scopes := strings.Join(slices.Sorted(strings.FieldsSeq(g.Asked().Get("scope"))), " ")
			if name == "browser" && (scopes != "more notes" || g.Asked().Get("code_challenge_method") != "S256" || g.Asked().Get("resource") != g.URL+"/mcp") {
				t.Errorf("asked with %v, want both scopes, S256 and the resource", g.Asked())
			}
			if info, err := os.Stat(cfg.File); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file: got %v, %v, want mode 600", info.Mode(), err)
			}
			if err := os.Chmod(cfg.File, 0o640); err != nil { //nolint:gosec // which the test is about
				t.Fatal(err)
			}
			if _, err := source(t, g, cfg).Token(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("a file that others may read: got %v, want what to do", err)
			}
		})
	}
}

// TestRenew has four nodes whose access token was refused at once: the refresh token is used once, and all have the new token.
func TestRenew(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	login(t, g, cfg)
	refusal := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}}
	renewAll := func(want string, renew func(*oauth.Source) (string, error)) {
		var all sync.WaitGroup
		for range 4 {
			s := source(t, g, cfg)
			all.Go(func() {
				if token, err := renew(s); token != want || err != nil {
					t.Errorf("got %q, %v, want %q", token, err, want)
				}
			})
		}
		all.Wait()
	}
	renewAll("access-secret-2", func(s *oauth.Source) (string, error) { return s.Renew(t.Context(), "access-secret-1", refusal) })
	renewAll("access-secret-2", func(s *oauth.Source) (string, error) { return s.Token(t.Context()) })
}

// TestExpired renews a token before a request that it would not outlast.
func TestExpired(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	g.Short(true)
	s := login(t, g, cfg)
	g.Short(false)
	if token, err := s.Token(t.Context()); token != "access-secret-2" || err != nil {
		t.Errorf("got %q, %v, want the second token", token, err)
	}
}

// TestErrorsHaveNoBody: an expired token that is renewed no more is a login that is needed, without what the authorization server wrote.
func TestErrorsHaveNoBody(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	g.Short(true)
	s := login(t, g, cfg)
	g.Revoke(true)
	if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrLogin) || !strings.Contains(fmt.Sprint(err), "invalid_grant") || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("got %v, want %v and the code alone", err, oauth.ErrLogin)
	}
}

// TestForgedReturn has another page of the browser come back first, with a state of its own: the login goes on.
func TestForgedReturn(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	err := oauth.Login(t.Context(), g.URL+"/mcp", cfg, oauth.Person{Show: func(address string) error {
		at, err := url.Parse(address)
		if err != nil {
			return err
		}
		return errors.Join(oauthtest.Browse(at.Query().Get("redirect_uri")+"?code=forged&state=other"), oauthtest.Browse(address))
	}})
	runtest.WantError(t, "err", err, nil)
}

// TestLoginAgain: where the authorization server renews no more, a person is needed, and no secret is in the error.
func TestLoginAgain(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	s := login(t, g, cfg)
	g.Revoke(true)
	refusal := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {`Bearer scope="notes write"`}}}
	_, err := s.Renew(t.Context(), "access-secret-1", refusal)
	if !errors.Is(err, oauth.ErrLogin) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("got %v, want %v without a secret", err, oauth.ErrLogin)
	}
	if token, err := source(t, g, oauth.Config{File: filepath.Join(t.TempDir(), "none")}).Renew(t.Context(), "", refusal); token != "" || !errors.Is(err, oauth.ErrLogin) {
		t.Errorf("without a login: got %q, %v, want %v", token, err, oauth.ErrLogin)
	}
	if token, err := login(t, g, cfg).Token(t.Context()); token != "access-secret-9" || err != nil {
		t.Errorf("after another login: got %q, %v, want its token", token, err)
	}
}

// TestRefusalAlone: a server that refused once, and was never logged in at, is asked again without a token.
func TestRefusalAlone(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	s := source(t, g, cfg)
	_, err := s.Renew(t.Context(), "", &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}})
	runtest.WantError(t, "renew", err, oauth.ErrLogin)
	if token, err := s.Token(t.Context()); token != "" || err != nil || !cfg.LoggedIn().IsZero() {
		t.Errorf("the next request: got %q, %v, want no token and no error", token, err)
	}
}

// TestNoLogin: what refuses a login says why.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	open := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(open.Close)
	runtest.WantError(t, "a server without", oauth.Login(t.Context(), open.URL, file(t), oauth.Person{Show: oauthtest.Browse}), oauth.ErrNoLogin)
	g, cfg := oauthtest.Guard(t, nil), file(t)
	cfg.Redirect = "http://192.0.2.1/callback"
	if err := oauth.Login(t.Context(), g.URL+"/mcp", cfg, oauth.Person{Show: oauthtest.Browse}); err == nil || !strings.Contains(err.Error(), "an address of this machine") {
		t.Errorf("redirect elsewhere: got %v, want a refusal", err)
	}
	for name, cfg := range map[string]oauth.Config{"machine without a secret": {Machine: true, ClientID: "c"}, "secret without an issuer": {ClientID: "c", ClientSecret: "s"}} {
		if _, err := oauth.NewSource(g.URL, cfg); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	cfg = file(t)
	cfg.ClientID, cfg.ClientSecret, cfg.Issuer = "c", "s", "https://other.example"
	if err := oauth.Login(t.Context(), g.URL+"/mcp", cfg, oauth.Person{Show: oauthtest.Browse}); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("another issuer: got %v, want a refusal", err)
	}
}

// TestDo sends a request that is refused once: it is sent again with another token. Where there is none, a person is needed.
func TestDo(t *testing.T) {
	t.Parallel()
	g, cfg := oauthtest.Guard(t, nil), file(t)
	s := login(t, g, cfg)
	do := func(refusals int) (sent []string, status int, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/mcp", strings.NewReader("x"))
		runtest.NoError(t, err)
		answer, err := s.Do(r, func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, r.Header.Get("Authorization")+" "+string(body))
			status := http.StatusOK
			if len(sent) <= refusals {
				status = http.StatusUnauthorized
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
		})
		if err == nil {
			status = answer.StatusCode
			_ = answer.Body.Close()
		}
		return sent, status, err
	}
	if sent, status, err := do(1); err != nil || status != http.StatusOK || !slices.Equal(sent, []string{"Bearer access-secret-1 x", "Bearer access-secret-2 x"}) {
		t.Errorf("got %q, %d, %v, want it sent again with the next token", sent, status, err)
	}
	g.Revoke(true)
	_, _, err := do(1)
	if refused, ok := errors.AsType[*oauth.Refusal](err); !ok || refused.Status != http.StatusUnauthorized || !errors.Is(err, oauth.ErrLogin) {
		t.Errorf("got %v, want a refusal that says that a login is needed", err)
	}
}

// TestServersAsTheyAre logs in at servers that differ from the protocol, or from each other, renews the token, and sends the resource each time.
func TestServersAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at, key, value string // what the answer at a path has; URL stands for the server's
		resource       string // that tokens are for, behind the server's address; empty: /mcp
	}{
		"as_they_should":    {},
		"with_a_slash":      {at: "/resource", key: "resource", value: "URL/mcp/", resource: "/mcp/"},
		"without_a_path":    {at: "/resource", key: "resource", value: "URL", resource: "none"},
		"as_browsers_write": {at: "/resource", key: "resource", value: "URL/", resource: "/"},
		"empty_parameter":   {at: "/mcp", key: "header", value: `Bearer realm="", resource_metadata="URL/resource", scope="notes"`},
		"without_a_comma":   {at: "/mcp", key: "header", value: `Bearer realm="x" resource_metadata=URL/resource scope="notes"`},
		"of_two_schemes":    {at: "/mcp", key: "header", value: `Negotiate YWJj, Bearer scope="notes", resource_metadata="URL/resource"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, cfg := oauthtest.Guard(t, nil), file(t)
			var sent []string
			g.Change = func(path string, r *http.Request, body map[string]any) int {
				if path == c.at {
					body[c.key] = strings.ReplaceAll(c.value, "URL", g.URL)
				}
				if path == "/token" {
					sent = append(sent, r.FormValue("grant_type")+" "+strings.TrimPrefix(r.FormValue("resource"), g.URL))
				}
				return 0
			}
			s := login(t, g, cfg)
			token, err := s.Renew(t.Context(), "access-secret-1", &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}})
			if token != "access-secret-2" || err != nil {
				t.Errorf("got %q, %v, want the next token", token, err)
			}
			at := strings.TrimPrefix(cmp.Or(c.resource, "/mcp"), "none")
			if want := []string{"authorization_code " + at, "refresh_token " + at}; !slices.Equal(sent, want) {
				t.Errorf("asked for tokens with %q, want %q", sent, want)
			}
			if scope := g.Asked().Get("scope"); scope != "notes" {
				t.Errorf("asked for the scope %q, want notes", scope)
			}
		})
	}
}

// TestRefusedRegistration: where a server registers no clients, the error says what to do, and has no body, in which a secret may be.
func TestRefusedRegistration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		expiry any
		want   string
	}{
		"forbidden": {http.StatusForbidden, 0, "403 Forbidden: register a client there"},
		"refused":   {http.StatusBadRequest, 0, "register a client there"},
		"odd":       {0, "never", "failed to decode"},
	} {
		g, cfg := oauthtest.Guard(t, nil), file(t)
		g.Change = func(path string, _ *http.Request, body map[string]any) int {
			if path != "/register" {
				return 0
			}
			body["client_secret"], body["client_secret_expires_at"] = "client-secret", c.expiry
			return c.status
		}
		err := oauth.Login(t.Context(), g.URL+"/mcp", cfg, oauth.Person{Show: oauthtest.Browse})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "client-secret") {
			t.Errorf("%s: got %v, want %q and no secret", name, err, c.want)
		}
	}
}

// TestBusyAuthorizationServer: one that cannot answer now needs no login.
func TestBusyAuthorizationServer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusBadGateway} {
		g, cfg := oauthtest.Guard(t, nil), file(t)
		s := login(t, g, cfg)
		g.Change = func(string, *http.Request, map[string]any) int { return status }
		_, err := s.Renew(t.Context(), "access-secret-1", &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}})
		if err == nil || errors.Is(err, oauth.ErrLogin) {
			t.Errorf("%d: got %v, want an error that is no %v", status, err, oauth.ErrLogin)
		}
	}
}
