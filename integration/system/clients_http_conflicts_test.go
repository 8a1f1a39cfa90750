package system

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
)

// conflicts sends requests that the current state of the session does not allow.
func conflicts(d *harness.HTTP) {
	d.T.Helper()
	d.WantProblem(409, "session_exists", "POST", "/v1/sessions", `{"id":"s1"}`)
	d.WantProblem(409, "session_exists", "POST", "/v1/sessions/s1/fork", `{"id":"s2"}`)
	got := d.WantProblem(409, "cursor", "GET", "/v1/sessions/s1/events?cursor=99999", "")
	runtest.Equal(d.T, "cursor", strings.Contains(got.Field("details"), "cursor:99999"), true)
	got = d.WantProblem(409, "stale_branch", "POST", "/v1/sessions/s1/nodes", `{"nodes":[],"requires_ancestor":"nosuch"}`)
	runtest.Equal(d.T, "stale branch", strings.Contains(got.Field("details"), "required:nosuch"), true)

	conflictingAnswers(d)
	d.Want(201, "POST", "/v1/sessions", `{"id":"lost"}`)
	d.LoseCommits("lost")

	d.Want(204, "PUT", "/v1/sessions/s2/grants/you", `{"rights":["read"]}`, "Idempotency-Key", "taken")
	d.Want(204, "DELETE", "/v1/sessions/s2?reason=done", "")
	for _, op := range d.Doc.Operations() {
		if !strings.Contains(op.Path, "{session}") {
			continue
		}
		if op.ID != operation.Fork.ID { // a fork has what is left
			got := d.Send("admin", op.Method, harness.PathOf(op.Path, "lost")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
			runtest.Equal(d.T, op.ID+" of a session that has lost commits", fmt.Sprint(got.Status, " ", got.Field("code")), "409 commits_lost")
		}
		if op.Right != "read" {
			_ = d.Send("admin", op.Method, harness.PathOf(op.Path, "s2")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID], "Idempotency-Key", "taken")
		}
	}
}

// conflictingAnswers answers and resolves calls twice, while the turn waits for another one.
func conflictingAnswers(d *harness.HTTP) {
	d.T.Helper()
	const s = "/v1/sessions/s3"
	d.Want(201, "POST", "/v1/sessions", `{"id":"s3"}`)
	d.Model.Rescript(
		harness.Reply(harness.Call("a", "add", `{"A":1,"B":2}`), harness.Call("b", "add", `{"A":3,"B":4}`)), harness.Reply(harness.Call("a", "later", "{}"), harness.Call("b", "later", "{}")), harness.Reply(harness.Text("end")),
	)
	d.Want(202, "POST", s+"/turns", `{"id":"t1","text":"1+2?"}`)
	d.AwaitState("s3", "questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	for body, detail := range map[string]string{
		`{"granted":true}`: "call is required", `{"call":"t1/0/0"}`: "granted is required", `{"call":"t1/0/0"`: "body: the JSON is not complete: it ends after byte 16, want the rest of the value",
	} {
		runtest.Equal(d.T, body, d.WantProblem(400, "invalid_body", "POST", s+"/approvals", body).Field("detail"), detail)
	}
	runtest.Equal(d.T, "result", d.WantProblem(400, "invalid_body", "POST", s+"/results", `{"text":"once"}`).Field("detail"), "call is required")
	d.Want(204, "POST", s+"/approvals", `{"call":"t1/0/0","granted":false}`)
	d.WantProblem(409, "different_content", "POST", s+"/approvals", `{"call":"t1/0/0","granted":true}`)
	d.Want(204, "POST", s+"/approvals", `{"call":"t1/0/1","granted":true}`)
	d.AwaitState("s3", "pending calls", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && t.Iteration == 1 && len(t.Calls) == 2 && t.Calls[0].Pended && t.Calls[1].Pended
	})
	d.Want(204, "POST", s+"/results", `{"call":"t1/1/0","text":"once"}`)
	d.WantProblem(409, "resolved", "POST", s+"/results", `{"call":"t1/1/0","text":"other"}`)
	d.Want(204, "POST", s+"/results", `{"call":"t1/1/1","text":"and twice"}`)
	d.Want(200, "GET", s+"/turns/t1?wait=30", "")
}

// late sends requests whose time limit has passed. Their outcome is unknown, and the response must not allow the
// client to repeat them.
func late(d *harness.HTTP) {
	d.T.Helper()
	server, err := httpapi.New(httpapi.Config{Service: d.Host, Tokens: harness.Tokens(), RequestTimeout: time.Nanosecond})
	runtest.WantError(d.T, "new server", err, nil)
	defer server.Drain()
	anonymousRequests(d)
	over, cancel := context.WithDeadline(d.Ctx, time.Now())
	defer cancel()
	for _, op := range d.Doc.Operations() {
		if op.Scope == "" {
			continue
		}
		path, w := harness.PathOf(op.Path, "s1"), httptest.NewRecorder()
		r := httptest.NewRequestWithContext(over, op.Method, path+harness.QueryOf(op.ID), strings.NewReader(harness.ValidBodies()[op.ID]))
		r.Header.Set("Authorization", "Bearer other"+harness.TokenSecret)
		if op.Scope == "admin" {
			r.Header.Set("Authorization", "Bearer admin"+harness.TokenSecret)
		}
		server.ServeHTTP(w, r)
		d.Doc.Check(d.T, op.Method, path, w.Code, w.Header(), w.Body.Bytes())
		runtest.Equal(d.T, op.ID+" too late", fmt.Sprintf("%d %q", w.Code, w.Header().Get("Retry-After")), `504 ""`)
	}
}

// anonymousRequests sends requests without a token until they have used the bytes of one caller: all of them count as one.
func anonymousRequests(d *harness.HTTP) {
	d.T.Helper()
	server, err := httpapi.New(httpapi.Config{Service: d.Host, Tokens: harness.Tokens(), MaxBytesPerMinute: 1000})
	runtest.WantError(d.T, "new server", err, nil)
	defer server.Drain()
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		for _, op := range d.Doc.Operations() {
			if op.Scope != "" {
				continue
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequestWithContext(d.Ctx, op.Method, op.Path, nil))
			d.Doc.Check(d.T, op.Method, op.Path, w.Code, w.Header(), w.Body.Bytes())
			runtest.Equal(d.T, op.ID+" for strangers", w.Code, want)
		}
	}
}

// slowBody is a request body that never arrives.
type slowBody struct {
	read chan<- struct{} // signals that a request waits for it
	end  <-chan struct{}
}

func (s slowBody) Read([]byte) (int, error) {
	s.read <- struct{}{}
	<-s.end
	return 0, io.EOF
}

// fillSlots fills a token's slots with requests whose bodies never arrive, until release.
func fillSlots(d *harness.HTTP, token string, n int) (release func()) {
	d.T.Helper()
	read, end := make(chan struct{}, n), make(chan struct{})
	var open sync.WaitGroup
	for range n {
		r := httptest.NewRequestWithContext(harness.Context(d.T), http.MethodPost, "/v1/sessions", slowBody{read, end})
		r.Header.Set("Authorization", "Bearer "+token+harness.TokenSecret)
		open.Go(func() { d.Server.ServeHTTP(httptest.NewRecorder(), r) })
	}
	for range n {
		harness.Receive(d.System, "a held request", read)
	}
	return func() {
		close(end)
		open.Wait()
	}
}

// isLong reports whether an operation's request stays open while its work runs.
func isLong(id string) bool {
	return id == "invokeAction" || id == "complete" || id == "streamCompletion"
}

// busy occupies all the requests and all the streams of a token that has no other streams.
func busy(d *harness.HTTP) {
	d.T.Helper()
	release := fillSlots(d, "admin", 2)
	for _, op := range d.Doc.Operations() {
		if op.Scope == "" {
			runtest.Equal(d.T, op.ID, d.Send("", op.Method, op.Path, "").Status, 200)
			continue
		}
		if isLong(op.ID) {
			continue
		}
		if _, streams := d.Doc.Paths[op.Path][strings.ToLower(op.Method)].Responses["200"].Content["text/event-stream"]; !streams {
			got := d.Send("admin", op.Method, harness.PathOf(op.Path, "s1")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
			runtest.Equal(d.T, op.ID+" of a busy token", fmt.Sprintf("%d %s %s", got.Status, got.Field("code"), got.Header.Get("Retry-After")), "429 too_many_requests 1")
		}
	}
	runtest.Equal(d.T, "another token", d.Send("reader", "GET", "/v1/sessions/s1", "").Status, 200)
	release()
	for range 4 {
		d.OpenStream("admin", "/v1/sessions/s1/events")
	}
	for _, op := range d.Doc.Operations() {
		path, streams := harness.PathOf(op.Path, "s1"), op.ID == "watchEvents" || op.ID == "watchTurn" || isLong(op.ID)
		if op.ID == "submitTurn" || op.ID == "getTurn" {
			path, streams = path+"?wait=1", true
		}
		if streams {
			runtest.Equal(d.T, op.ID, d.Send("admin", op.Method, path, harness.ValidBodies()[op.ID]).Field("code"), "too_many_streams")
		}
	}
	d.OpenStream("other", "/v1/sessions/s1/events") // which another token has its own of
}
