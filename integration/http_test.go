package integration

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// door is the session service over HTTP, before a bundle's host.
type door struct {
	*bundle
	server *httpapi.Server
	url    string
	client *http.Client
	doc    *apiDocument
	logs   *observer.ObservedLogs
}

// The tokens of these doors are their names and this. It must show nowhere.
const secret = "-z5J3cret"

func tokens() []httpapi.Token {
	var list []httpapi.Token
	for name, scope := range map[string]api.Scope{
		"reader": api.ScopeRead, "writer": api.ScopeWrite, "other": api.ScopeWrite, "admin": api.ScopeAdmin, "root": api.ScopeAdmin, "approver": "approve",
	} {
		list = append(list, httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name + secret)), Scope: scope})
	}
	for _, name := range []string{"alice", "bob"} {
		list = append(list, httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name + secret)), Scope: api.ScopeAdmin, Own: true})
	}
	return list
}

// door serves the bundle's host until the test ends.
func (b *bundle) door(cfg httpapi.Config) *door {
	b.t.Helper()
	d := &door{bundle: b, client: &http.Client{Transport: &http.Transport{}}}
	core, logs := observer.New(zap.DebugLevel)
	d.logs = logs
	if cfg.Service == nil {
		cfg.Service = b.Host
	}
	cfg.Tokens, cfg.Logger = append(tokens(), cfg.Tokens...), zap.New(core)
	var err error
	d.server, err = httpapi.New(cfg)
	must(b.t, "new server", err, nil)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	must(b.t, "listen", err, nil)
	d.url = "http://" + on.Addr().String()
	d.server.Start(on)
	b.t.Cleanup(func() {
		d.client.CloseIdleConnections()
		soon, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own has ended
		defer cancel()
		d.server.Stop(soon)
		d.keepsSecrets()
	})
	got := d.ask("", http.MethodGet, "/v1/openapi.json", "")
	d.doc = documentOf(b.t, got.body)
	return d
}

// keepsSecrets looks for tokens in every line that was logged.
func (d *door) keepsSecrets() {
	d.t.Helper()
	for _, line := range d.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, secret) {
			d.t.Errorf("log: got %s, want no token in it", text)
		}
	}
}

// answered is an answer to a request.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// text is a field of a JSON answer.
func (a answered) text(name string) string {
	var fields map[string]any
	_ = json.Unmarshal(a.body, &fields)
	return fmt.Sprint(fields[name])
}

func (d *door) request(token, method, path, body string, header ...string) *http.Request {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.ctx, method, d.url+path, strings.NewReader(body))
	must(d.t, "request", err, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token+secret)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// ask sends a request and holds the answer against the document.
func (d *door) ask(token, method, path, body string, header ...string) answered {
	d.t.Helper()
	r := d.request(token, method, path, body, header...)
	got, err := d.client.Do(r)
	must(d.t, method+" "+path, err, nil)
	defer func() { _ = got.Body.Close() }()
	a := answered{status: got.StatusCode, header: got.Header}
	a.body, err = io.ReadAll(got.Body)
	must(d.t, method+" "+path, err, nil)
	if d.doc != nil {
		d.doc.check(d.t, method, r.URL.Path, a.status, a.header, a.body)
	}
	if strings.Contains(string(a.body), secret) {
		d.t.Errorf("%s %s: got %s, want no token in it", method, path, a.body)
	}
	return a
}

// want sends a request of the writer's that is answered with a status.
func (d *door) want(status int, method, path, body string, header ...string) answered {
	d.t.Helper()
	a := d.ask("writer", method, path, body, header...)
	if a.status != status {
		d.t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

// refused is want for problems of a code.
func (d *door) refused(status int, code, method, path, body string, header ...string) answered {
	d.t.Helper()
	a := d.want(status, method, path, body, header...)
	equal(d.t, method+" "+path+" "+body, a.text("code"), code)
	return a
}

// received is a server-sent event.
type received struct{ id, name, data string }

// sse is an open stream.
type sse struct {
	d     *door
	path  string
	body  io.ReadCloser
	lines *bufio.Scanner
	shape *jsonschema.Schema // of its events
}

// stream opens a stream. Closing it is the test's affair; it ends with the test.
func (d *door) stream(token, path string, header ...string) *sse {
	d.t.Helper()
	return d.streamOf(token, http.MethodGet, path, "", header...)
}

// streamOf is stream with another method, and a body.
func (d *door) streamOf(token, method, path, body string, header ...string) *sse {
	d.t.Helper()
	r := d.request(token, method, path, body, header...)
	got, err := d.client.Do(r)
	must(d.t, "stream", err, nil)
	if got.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		d.t.Fatalf("%s: got %d %s, want a stream", path, got.StatusCode, body)
	}
	d.doc.check(d.t, method, r.URL.Path, got.StatusCode, got.Header, nil)
	s := &sse{d: d, path: path, body: got.Body, lines: scanMessages(got.Body)}
	s.shape = d.doc.Paths[d.doc.path(method, r.URL.Path)][strings.ToLower(method)].Responses["200"].Content["text/event-stream"].Schema
	d.t.Cleanup(s.close)
	return s
}

func (s *sse) close() { _ = s.body.Close() }

// next is the next event; io.EOF where the server ended the stream as it should.
func (s *sse) next() (received, error) {
	m, err := nextMessage(s.lines)
	if err != nil {
		return m, err
	}
	shown, err := json.Marshal(map[string]any{"event": m.name, "id": m.id, "data": json.RawMessage(m.data)})
	must(s.d.t, "event", err, nil)
	s.d.doc.validate(s.d.t, s.path+" "+m.name, s.shape, shown)
	return m, nil
}

func scanMessages(body io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	return lines
}

func nextMessage(lines *bufio.Scanner) (m received, err error) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.name = value
		case "data":
			m.data = value
		case "":
			if m.name != "" { // else of a comment, or the time to retry
				return m, nil
			}
		}
	}
	return m, cmp.Or(lines.Err(), io.EOF)
}

// until takes events up to the first that is enough.
func (s *sse) until(enough func(received) bool) []received {
	s.d.t.Helper()
	var list []received
	for {
		m, err := s.next()
		must(s.d.t, "next event", err, nil)
		list = append(list, m)
		if enough(m) {
			return list
		}
	}
}

// rescript is what the model says from now on.
func (m *model) rescript(script ...step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script[:len(m.requests)], script...)
}
