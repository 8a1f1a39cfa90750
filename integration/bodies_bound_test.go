package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/httpapi"
)

// searches counts how often a history is looked through for bodies.
type searches struct {
	*session.Host
	n atomic.Int64
}

func (s *searches) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	s.n.Add(1)
	return s.Host.FindBlobs(ctx, id, digests...)
}

// TestBodiesAreSoughtOnce sends every request that brings messages with a
// thousand references: each is looked for in one pass over the history, which
// may be long.
func TestBodiesAreSoughtOnce(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	counted := &searches{Host: b.Host}
	d := b.door(httpapi.Config{Service: counted})
	const s = "/v1/sessions/s1"
	d.want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	part := `{"type":"text","blob":` + strings.TrimSpace(string(d.want(201, "POST", s+"/blobs", "b").body)) + `}`
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
		before, last := counted.n.Load(), d.last("s1")
		d.refused(404, "unknown_blob", method, s+path, body)
		equal(t, "looks for "+path, counted.n.Load()-before, 1)
		many := d.refused(413, "too_large", method, s+path, strings.Replace(body, missing, strings.Repeat(missing+",", api.MaxDigests)+missing, 1))
		equal(t, "too many of "+path, strings.Contains(string(many.body), `"field":"digests"`), true)
		equal(t, "commits after "+path, d.last("s1"), last)
	}
}

// TestBodiesAreBoundedTogether names one body of the largest size many times,
// in one request and in many: a request above the limit is refused, and a turn
// of a conversation above it ends with an issue. No process holds all of it.
func TestBodiesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.node()
	d := b.door(httpapi.Config{})
	const s = "/v1/sessions/s1"
	d.want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	part := `{"type":"text","blob":` + strings.TrimSpace(string(d.want(201, "POST", s+"/blobs", strings.Repeat("b", events.MaxBlobBytes)).body)) + `}`
	parts := strings.Repeat(part+",", blob.MaxFillBytes/events.MaxBlobBytes) + part
	for path, body := range map[string]string{
		"/nodes": `{"nodes":[{"message":{"role":"user","parts":[` + parts + `]}}]}`, "/turns": `{"parts":[` + parts + `]}`,
	} {
		d.refused(413, "too_large", "POST", s+path, body)
	}
	for range blob.MaxFillBytes/events.MaxBlobBytes + 1 { // each alone may be there
		d.want(201, "POST", s+"/inputs", `{"parts":[`+part+`]}`)
	}
	got := d.want(200, "POST", s+"/turns?wait=60", `{"text":"go on"}`)
	if !strings.Contains(string(got.body), "bodies: have ") {
		t.Errorf("turn: got %.500s, want the bodies to be too large", got.body)
	}
	equal(t, "prompts", len(b.model.asked()), 0)
}
