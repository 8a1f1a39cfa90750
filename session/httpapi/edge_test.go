package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/webpage"
)

// TestSchemasHaveNoNamesOfBrowsers compares the names of the document with those that TypeScript 5.9 declares for browsers and the
// language, in testdata: generated code would hide them.
func TestSchemasHaveNoNamesOfBrowsers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/browser-types.txt")
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.Fields(string(data))
	if !slices.Contains(taken, "Blob") || !slices.Contains(taken, "Request") {
		t.Fatalf("got %d names, want those of browsers", len(taken))
	}
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	w := ask(t, newServer(t, config(t)), http.MethodGet, "/v1/openapi.json", "")
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || len(doc.Components.Schemas) < 100 {
		t.Fatalf("got %d schemas, %v", len(doc.Components.Schemas), err)
	}
	for name := range maps.Keys(doc.Components.Schemas) {
		if slices.Contains(taken, name) {
			t.Errorf("schema %s: got a name of browsers, want another: renamed in schema.go", name)
		}
	}
}

// TestStreamBlocks reads the beginning of a stream: nothing ends with an empty line but an event, and proxies may not change it.
func TestStreamBlocks(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.KeepAlive = time.Millisecond
	s, address := listening(t, cfg)
	ask(t, s, http.MethodPost, "/v1/sessions", `{"id":"s"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/sessions/s/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	client := &http.Client{Transport: &http.Transport{}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close() //nolint:errcheck // of a test
	if cache := got.Header.Get("Cache-Control"); cache != "no-store, no-transform" {
		t.Errorf("Cache-Control: got %q", cache)
	}
	buf, text := make([]byte, 1<<12), ""
	for !strings.Contains(text, "\n\n:\n:\n") { // the event, and two signs of life
		n, err := got.Body.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("got %q, %v", text, err)
		}
	}
	blocks := strings.Split(text, "\n\n")
	lines := slices.DeleteFunc(strings.Split(blocks[0], "\n"), func(line string) bool { return line == ":" }) // signs of life may come first
	first := strings.Join(lines, "\n")
	if !strings.HasPrefix(first, "retry: 1000\nid: 1\nevent: commit\ndata: ") || len(blocks) != 2 {
		t.Errorf("got %.200q, want the time of retries in the block of the first event, and no empty event", text)
	}
}

// TestAccessOfHandlers checks the status of answers that other handlers write: the page and the agents' protocol.
func TestAccessOfHandlers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last accesslog.Record
	cfg := config(t)
	cfg.Access = func(r accesslog.Record) {
		mu.Lock()
		defer mu.Unlock()
		last = r
	}
	page, err := webpage.New(webpage.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Page = page
	status := 0 // of the agents' answer; 0: it writes none
	cfg.Agents = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch status {
			case 0:
			case http.StatusOK:
				_, _ = w.Write([]byte("{}"))
			default:
				w.WriteHeader(status)
			}
		})
	}
	s := newServer(t, cfg)
	for _, c := range []struct {
		method, path string
		answers      int
		want         int
		op           string
	}{
		{http.MethodGet, "/", 0, http.StatusOK, "page"},
		{http.MethodGet, "/page/app.js", 0, http.StatusOK, "page"},
		{http.MethodGet, "/page/none.js", 0, http.StatusNotFound, "page"},
		{http.MethodPost, "/v1/mcp", http.StatusOK, http.StatusOK, "mcp"},
		{http.MethodPost, "/v1/mcp", http.StatusAccepted, http.StatusAccepted, "mcp"},
		{http.MethodPost, "/v1/mcp", 0, http.StatusOK, "mcp"},
	} {
		status = c.answers
		w := ask(t, s, c.method, c.path, "")
		if w.Code != c.want || last.Status != c.want || last.Operation != c.op {
			t.Errorf("%s %s: got %d, in the log %d of %q, want %d of %q", c.method, c.path, w.Code, last.Status, last.Operation, c.want, c.op)
		}
	}
}

// TestFollowsSeveralSessions reads the page's stream: commits of two sessions, each after its cursor, and a problem of the one that does not
// exist, which ends neither. Without a session, or with one that is none, the request is refused.
func TestFollowsSeveralSessions(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	page, err := webpage.New(webpage.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Page = page
	s, address := listening(t, cfg)
	for _, id := range []string{"a", "b"} {
		ask(t, s, http.MethodPost, "/v1/sessions", `{"id":"`+id+`"}`)
	}
	for _, query := range []string{"", "?session=a", "?session=a:x", "?session=a.b:0", "?session=a:0&cursor=1", "?session=a:0" + strings.Repeat("&session=b:0", 256)} {
		if w := ask(t, s, http.MethodGet, "/v1/follow"+query, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%.40s: got %d %s, want 400", query, w.Code, w.Body)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/follow?session=a:0&session=b:1&session=none:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	client := &http.Client{Transport: &http.Transport{}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close() //nolint:errcheck // of a test
	text, buf := "", make([]byte, 1<<12)
	read := func(want ...string) {
		t.Helper()
		for _, w := range want {
			for !strings.Contains(text, w) {
				n, err := got.Body.Read(buf)
				if text += string(buf[:n]); err != nil {
					t.Fatalf("got %q, %v, want %s", text, err, w)
				}
			}
		}
	}
	read(`event: commit`+"\n"+`data: {"session":"a","data":{"seq":1,`, `event: problem`+"\n"+`data: {"session":"none","data":{"type":"about:blank","title":"Not Found","status":404`)
	if w := ask(t, s, http.MethodPost, "/v1/sessions/b/turns", `{"id":"t1","text":"go"}`); w.Code != http.StatusAccepted {
		t.Fatalf("turn: got %d %s", w.Code, w.Body)
	}
	read(`data: {"session":"b","data":{"seq":2,`)
	if strings.Contains(text, `{"session":"b","data":{"seq":1,`) {
		t.Errorf("got %q, want nothing of b before its cursor", text)
	}
}
