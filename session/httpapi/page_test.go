package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
)

// TestFloodOfPages has a client without a token read the page and the document until it is refused. Clients of other
// addresses still get the page, sign in, and work; those of the same address, or of its IPv6 /64, get no page.
func TestFloodOfPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flood, same string
		others      []string
	}{
		"ipv4": {"192.0.2.1:1000", "192.0.2.1:2000", []string{"192.0.2.2:1000", "[2001:db8::1]:1000"}},
		"ipv6": {"[2001:db8:1:2::1]:1000", "[2001:db8:1:2:3:4:5:6]:7", []string{"[2001:db8:1:3::1]:1000", "192.0.2.1:1000"}},
	} {
		for _, path := range []string{"/page/app.js", "/v1/openapi.json"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				page, err := webpage.New(webpage.Settings{})
				if err != nil {
					t.Fatal(err)
				}
				s := limited(t, func(c *httpapi.Config) { c.Page, c.MaxBytesPerMinute = page, 2000 })
				get := func(from, path, token string) *httptest.ResponseRecorder {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					r.RemoteAddr = from
					if token != "" {
						r.Header.Set("Authorization", "Bearer "+token)
					}
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					return w
				}
				if w := get(c.flood, path, ""); w.Code != http.StatusOK || w.Body.Len() < 2000 {
					t.Fatalf("first: got %d and %d bytes, want more than the limit", w.Code, w.Body.Len())
				}
				for _, again := range []string{"/", "/page/app.js", "/v1/openapi.json"} {
					for _, from := range []string{c.flood, c.same} {
						if w := get(from, again, ""); code(t, w) != "429 too_many_bytes" {
							t.Errorf("%s from %s: got %d %s, want it refused", again, from, w.Code, w.Body)
						}
					}
				}
				for _, from := range c.others {
					if w := get(from, "/", ""); w.Code != http.StatusOK {
						t.Errorf("page from %s: got %d %s, want 200", from, w.Code, w.Body)
					}
				}
				for _, from := range append(c.others, c.flood) { // a caller has bytes of its own
					if w := get(from, "/v1/sessions", secret); w.Code != http.StatusOK {
						t.Errorf("sign-in from %s: got %d %s, want 200", from, w.Code, w.Body)
					}
				}
			})
		}
	}
}
