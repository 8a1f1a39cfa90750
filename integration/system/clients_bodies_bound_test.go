package system

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/httpapi"
)

// searches counts the searches for bodies in a history.
type searches struct {
	*session.Host
	n atomic.Int64
}

func (s *searches) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	s.n.Add(1)
	return s.Host.FindBlobs(ctx, id, digests...)
}

// TestBodiesAreSearchedOnce sends every request with messages with a thousand references: one pass over the history,
// which may be long, finds all of them.
func TestBodiesAreSearchedOnce(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	counted := &searches{Host: b.Host}
	d := b.ServeHTTP(httpapi.Config{Service: counted})
	const s = "/v1/sessions/s1"
	d.Want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	part := `{"type":"text","blob":` + strings.TrimSpace(string(d.Want(201, "POST", s+"/blobs", "b").Body)) + `}`
	missing := `{"type":"text","blob":{"digest":"` + strings.Repeat("0f", 32) + `","size":1}}`
	parts := "[" + strings.Repeat(part+",", 400) + missing + "]"
	message := `{"role":"user","parts":` + parts + `}`
	for path, body := range map[string]string{
		"POST /turns":       `{"parts":` + parts + `}`,
		"POST /inputs":      `{"parts":` + parts + `}`,
		"POST /nodes":       fmt.Sprintf(`{"nodes":[{"message":%s},{"message":%s}]}`, message, message),
		"POST /frames":      fmt.Sprintf(`{"id":"f2","nodes":[{"message":%s},{"message":%s}]}`, message, message),
		"PUT /messages":     fmt.Sprintf(`{"messages":[%s,%s]}`, message, message),
		"POST /completions": fmt.Sprintf(`{"messages":[%s,%s]}`, message, message),
	} {
		method, path, _ := strings.Cut(path, " ")
		before, last := counted.n.Load(), d.LastSeq("s1")
		d.WantProblem(404, "unknown_blob", method, s+path, body)
		runtest.Equal(t, "looks for "+path, counted.n.Load()-before, 1)
		many := d.WantProblem(413, "too_large", method, s+path, strings.Replace(body, missing, strings.Repeat(missing+",", api.MaxDigests)+missing, 1))
		runtest.Equal(t, "too many of "+path, strings.Contains(string(many.Body), `"field":"digests"`), true)
		runtest.Equal(t, "commits after "+path, d.LastSeq("s1"), last)
	}
}

// TestBodiesAreBoundedTogether refers to one body of the largest size many times, in one request and in many. A
// request above the limit is refused, and a turn of a conversation above it ends with an issue. No process has all
// of it in memory.
func TestBodiesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	const s = "/v1/sessions/s1"
	d.Want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	part := `{"type":"text","blob":` + strings.TrimSpace(string(d.Want(201, "POST", s+"/blobs", strings.Repeat("b", events.MaxBlobBytes)).Body)) + `}`
	parts := strings.Repeat(part+",", blob.MaxFillBytes/events.MaxBlobBytes) + part
	for path, body := range map[string]string{
		"/nodes": `{"nodes":[{"message":{"role":"user","parts":[` + parts + `]}}]}`, "/turns": `{"parts":[` + parts + `]}`,
	} {
		d.WantProblem(413, "too_large", "POST", s+path, body)
	}
	for range blob.MaxFillBytes/events.MaxBlobBytes + 1 { // each alone may be there
		d.Want(201, "POST", s+"/inputs", `{"parts":[`+part+`]}`)
	}
	got := d.Want(200, "POST", s+"/turns?wait=60", `{"text":"go on"}`)
	if !strings.Contains(string(got.Body), "bodies: have ") {
		t.Errorf("turn: got %.500s, want the bodies to be too large", got.Body)
	}
	runtest.Equal(t, "prompts", len(b.Model.Requests()), 0)
}
