package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/memory"
)

// limited is a server with a second caller, whose token is "you".
func limited(t *testing.T, change func(*httpapi.Config)) *httpapi.Server {
	t.Helper()
	cfg := config(t)
	cfg.Tokens = append(cfg.Tokens, httpapi.Token{Name: "you", Digest: sha256.Sum256([]byte("you")), Scope: api.ScopeAdmin})
	change(&cfg)
	return newServer(t, cfg)
}

// TestLimitsOfCaller reaches each limit of a caller. The response names the limit and the time to retry, and another
// caller is not affected.
func TestLimitsOfCaller(t *testing.T) {
	t.Parallel()
	big := `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"` + strings.Repeat("x", 4000) + `"}]}}]}`
	for name, c := range map[string]struct {
		change   func(*httpapi.Config)
		reach    func(t *testing.T, s *httpapi.Server)
		path     string
		code     string
		limit    string
		max      int
		atLeast  int // of Retry-After, in seconds
		document int // status of the document, which needs no caller
	}{
		"bytes_of_bodies": {
			func(c *httpapi.Config) { c.MaxBytesPerMinute = 1000 },
			func(t *testing.T, s *httpapi.Server) { ask(t, s, "POST", "/v1/sessions/s/nodes", big) },
			"/v1/sessions/s", "too_many_bytes", "bytes_a_minute", 1000, 120, 200,
		},
		"bytes_of_answers": {
			func(c *httpapi.Config) { c.MaxBytesPerMinute = 1000 },
			func(t *testing.T, s *httpapi.Server) { ask(t, s, "GET", "/v1/sessions/s/view", "") },
			"/v1/sessions/s", "too_many_bytes", "bytes_a_minute", 1000, 120, 200,
		},
		"requests": {
			func(c *httpapi.Config) { c.MaxRequestsPerCaller = 2 },
			func(t *testing.T, s *httpapi.Server) { hold(t, s, 2) },
			"/v1/sessions/s", "too_many_requests", "requests_at_once", 2, 1, 200,
		},
		"streams": {
			func(c *httpapi.Config) { c.MaxStreamsPerCaller = 1 },
			func(t *testing.T, s *httpapi.Server) { watch(t, s) },
			"/v1/sessions/s/events", "too_many_streams", "streams_at_once", 1, 1, 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := limited(t, c.change)
			ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`, "Authorization", "Bearer you")
			if c.limit == "bytes_a_minute" { // the first request may have any size
				ask(t, s, "POST", "/v1/sessions/s/nodes", big, "Authorization", "Bearer you")
			}
			c.reach(t, s)
			w := ask(t, s, "GET", c.path, "")
			var p struct {
				Code    string
				Details map[string]string
			}
			_ = json.Unmarshal(w.Body.Bytes(), &p)
			if w.Code != http.StatusTooManyRequests || p.Code != c.code || p.Details["limit"] != c.limit || p.Details["max"] != strconv.Itoa(c.max) {
				t.Errorf("got %d %s, want 429 %s with the limit %s of %d", w.Code, w.Body, c.code, c.limit, c.max)
			}
			if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after < c.atLeast {
				t.Errorf("Retry-After: got %q, want at least %d", w.Header().Get("Retry-After"), c.atLeast)
			}
			if c.limit != "bytes_a_minute" {
				if w := ask(t, s, http.MethodHead, c.path, "", "Authorization", "Bearer you"); w.Code != http.StatusOK {
					t.Errorf("another caller: got %d %s, want 200", w.Code, w.Body)
				}
			}
			if w := ask(t, s, "GET", "/v1/openapi.json", ""); w.Code != c.document {
				t.Errorf("document: got %d, want %d", w.Code, c.document)
			}
		})
	}
}

// slow is a body that blocks until it is ended.
type slow struct {
	read chan<- struct{}
	end  <-chan struct{}
}

func (s slow) Read([]byte) (int, error) {
	s.read <- struct{}{}
	<-s.end
	return 0, context.Canceled
}

// hold keeps requests of the caller open, waiting for their bodies, until the test ends.
func hold(t *testing.T, s *httpapi.Server, n int) {
	t.Helper()
	read, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range n {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/sessions", slow{read, end})
		r.Header.Set("Authorization", "Bearer "+secret)
		go func() {
			s.ServeHTTP(httptest.NewRecorder(), r)
			ended <- struct{}{}
		}()
		<-read
	}
	t.Cleanup(func() {
		close(end)
		for range n {
			<-ended
		}
	})
}

// watch keeps a stream of the caller open until the test ends.
func watch(t *testing.T, s *httpapi.Server) {
	t.Helper()
	served := httptest.NewServer(s)
	t.Cleanup(func() { s.Drain(); served.Close() })
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, served.URL+"/v1/sessions/s/events", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	got, err := served.Client().Do(r)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("stream: got %v, %v, want one", got, err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
}

// TestLongStreamIsSlowedDown reads more than a minute's bytes from a stream: the rest is delayed.
func TestLongStreamIsSlowedDown(t *testing.T) {
	t.Parallel()
	const perMinute = 120_000 // 2 000 a second
	s := limited(t, func(c *httpapi.Config) { c.MaxBytesPerMinute = perMinute })
	served := httptest.NewServer(s)
	defer served.Close()
	defer s.Drain()
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	node := `{"message":{"role":"user","parts":[{"type":"text","text":"` + strings.Repeat("x", 10_000) + `"}]}}`
	if w := ask(t, s, "POST", "/v1/sessions/s/nodes", `{"nodes":[`+strings.Repeat(node+",", 12)+node+`]}`); w.Code != http.StatusOK {
		t.Fatalf("nodes: got %d %s", w.Code, w.Body)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, served.URL+"/v1/sessions/s/events", nil)
	r.Header.Set("Authorization", "Bearer you")
	began := time.Now()
	got, err := served.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close() //nolint:errcheck // it was only read
	read := 0
	for buffer := make([]byte, 32<<10); read < 130_000; {
		n, err := got.Body.Read(buffer)
		if read += n; err != nil {
			t.Fatalf("after %d bytes: %v", read, err)
		}
	}
	if took := time.Since(began); took < 3*time.Second { // 10 000 bytes more than a minute's, in 5 s
		t.Errorf("got %d bytes in %s, want those above %d to take 5 s", read, took, perMinute)
	}
}

// TestLargeBodiesAreBounded sends bodies beside one whose length is not known. Small ones, and ones above the maximum, take no memory. A
// caller has at most its share, and one that waited for it in vain is told when to come again.
func TestLargeBodiesAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	const small, most = 64 << 10, 128 << 10
	cfg.RequestTimeout, cfg.MaxBlobBytes, cfg.Memory = 2*time.Second, most, memory.NewPool(8*most, 2*most+2*small)
	s := newServer(t, cfg)
	if w := ask(t, s, "POST", "/v1/sessions", `{"id":"s1"}`); w.Code != 201 {
		t.Fatalf("create: got %d %s", w.Code, w.Body)
	}
	slow, to := io.Pipe()
	ended := make(chan int)
	began := make(chan struct{})
	go func() { // ends when its body does
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/sessions/s1/blobs", io.TeeReader(slow, closes{began}))
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		ended <- w.Code
	}()
	_, _ = to.Write([]byte("x"))
	<-began // it is read
	for size, want := range map[int]string{1: "", small: "", small + 1: "429 memory_in_use", most: "429 memory_in_use", most + 1: "413 body_too_large"} {
		w := ask(t, s, "POST", "/v1/sessions/s1/blobs", strings.Repeat("y", size))
		if got := ""; w.Code != 201 {
			if got = code(t, w); got != want {
				t.Errorf("%d bytes beside a large body: got %d %s, want %q", size, w.Code, got, want)
			}
		} else if want != "" {
			t.Errorf("%d bytes beside a large body: got %d, want %q", size, w.Code, want)
		}
	}
	_ = to.Close()
	if got := <-ended; got != 201 {
		t.Errorf("large body: got %d, want 201", got)
	}
	w := ask(t, s, "POST", "/v1/sessions/s1/blobs", strings.Repeat("z", most))
	for range 3 { // what each took is given back
		if got := ask(t, s, "GET", w.Header().Get("Location"), ""); got.Code != 200 || got.Body.Len() != most {
			t.Errorf("after it: got %d and %d bytes, want 200 and %d", got.Code, got.Body.Len(), most)
		}
	}
}

// TestLargeSnapshotsAreBounded reads the snapshots of two sessions, one of which has what is more than a caller's memory: it is refused. What the other
// takes is given back.
func TestLargeSnapshotsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	const size, nodes = 8 << 10, 20
	cfg.Memory = memory.NewPool(1<<30, 5*nodes*size)
	s := newServer(t, cfg)
	node := `{"message":{"role":"user","parts":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`
	for id, appends := range map[string]int{"most": 1, "more": 2} {
		if w := ask(t, s, "POST", "/v1/sessions", `{"id":"`+id+`"}`); w.Code != 201 {
			t.Fatalf("create: got %d %s", w.Code, w.Body)
		}
		for range appends {
			if w := ask(t, s, "POST", "/v1/sessions/"+id+"/nodes", `{"nodes":[`+strings.Repeat(node+",", nodes-1)+node+`]}`); w.Code >= 300 {
				t.Fatalf("append: got %d %s", w.Code, w.Body)
			}
		}
	}
	for range 3 {
		if w := ask(t, s, "GET", "/v1/sessions/most/snapshot", ""); w.Code != 200 || w.Body.Len() < nodes*size {
			t.Errorf("as much as a caller has: got %d and %d bytes, want 200 and at least %d", w.Code, w.Body.Len(), nodes*size)
		}
		if w := ask(t, s, "GET", "/v1/sessions/more/snapshot", ""); w.Code != 413 {
			t.Errorf("more than a caller has: got %d and %d bytes, want 413", w.Code, w.Body.Len())
		}
	}
}

// closes closes the channel with the first write.
type closes struct{ once chan struct{} }

func (c closes) Write(data []byte) (int, error) {
	select {
	case <-c.once:
	default:
		close(c.once)
	}
	return len(data), nil
}
