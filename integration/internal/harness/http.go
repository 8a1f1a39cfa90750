package harness

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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// ValidBodies are the request bodies that an open session accepts, by operation. An operation that is not in the map
// has no body.
func ValidBodies() map[string]string {
	return map[string]string{
		"createSession": `{}`, "configureSession": `{"model":"m2"}`, "forkSession": `{}`, "submitTurn": `{"text":"hello"}`,
		"cancelTurn": `{}`, "injectInput": `{"text":"mind this"}`, "appendNodes": `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"n"}]}}]}`,
		"branchTo": `{"node":""}`, "openFrame": `{"id":"f9"}`, "approve": `{"call":"t1/0/0","granted":true}`,
		"resolveCall": `{"call":"t1/0/0","text":"done"}`, "setTools": `{"names":["add"],"level":"off"}`, "startMonitor": `{"command":"true"}`,
		"grant": `{"rights":["read"]}`, "storeBlob": `{"x":1}`, "rewriteMessages": `{"messages":[]}`, "setProtocolOptions": `{"options":{}}`, "replaceExtensions": `{"extensions":[]}`, "applyExtension": `{"type":"x"}`,
		"applyTools": `{"generation":0,"tools":[]}`, "invokeAction": `{"name":"greet"}`, "complete": `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}]}`,
		"registerTask": `{}`, "progressTask": `{"message":"on"}`, "endTask": `{"state":"completed"}`, "transitionTask": `{"state":"waiting"}`, "stopTask": `{}`, "cancelTasks": `{}`,
		"streamCompletion": `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}]}`,
		"transferTasks":    `{"to":"elsewhere","tasks":["k1"]}`,
	}
}

// PathOf fills the parameters of a path.
func PathOf(path, session string) string {
	return strings.NewReplacer("{session}", session, "{turn}", "t1", "{input}", "i1", "{task}", "k1", "{source}", "more", "{monitor}", "m1", "{caller}", "guest", "{digest}", strings.Repeat("0f", 32)).Replace(path)
}

// QueryOf is the query that an operation requires.
func QueryOf(id string) string {
	return map[string]string{"getOutput": "?call=t1/0/0", "search": "?text=hello"}[id]
}

// HTTP is the session service over HTTP, with a system's host.
type HTTP struct {
	*System
	Server *httpapi.Server
	URL    string
	Client *http.Client
	Doc    *Document
	logs   *secretLog
}

// TokenSecret ends every token of these services, after its name. It must appear in no log.
const TokenSecret = "-z5J3cret"

// Tokens are the tokens of the service.
func Tokens() []httpapi.Token {
	var list []httpapi.Token
	for name, scope := range map[string]api.Scope{
		"reader": api.ScopeRead, "writer": api.ScopeWrite, "other": api.ScopeWrite, "admin": api.ScopeAdmin, "root": api.ScopeAdmin, "approver": "approve",
	} {
		list = append(list, httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name + TokenSecret)), Scope: scope})
	}
	for _, name := range []string{"alice", "bob"} {
		list = append(list, httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name + TokenSecret)), Scope: api.ScopeAdmin, Own: true})
	}
	return list
}

// ServeHTTP serves the system's host over HTTP until the test ends. The test's log has the server's errors.
func (b *System) ServeHTTP(cfg httpapi.Config) *HTTP {
	b.T.Helper()
	d := &HTTP{System: b, Client: &http.Client{Transport: &http.Transport{}}}
	d.logs = &secretLog{LevelEnabler: zap.DebugLevel, found: new(atomic.Pointer[string])}
	if cfg.Service == nil {
		cfg.Service = b.Host
	}
	cfg.Tokens, cfg.Logger = append(Tokens(), cfg.Tokens...), zap.New(zapcore.NewTee(d.logs, zaptest.NewLogger(b.T, zaptest.Level(zap.ErrorLevel)).Core()))
	var err error
	d.Server, err = httpapi.New(cfg)
	runtest.WantError(b.T, "new server", err, nil)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.WantError(b.T, "listen", err, nil)
	d.URL = "http://" + on.Addr().String()
	d.Server.Start(on)
	b.T.Cleanup(func() {
		d.Client.CloseIdleConnections()
		soon, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's context has ended
		defer cancel()
		d.Server.Stop(soon)
		d.keepsSecrets()
	})
	got := d.Send("", http.MethodGet, "/v1/openapi.json", "")
	d.Doc = documentOf(b.T, got.Body)
	return d
}

// keepsSecrets fails for a log line that contains a token.
func (d *HTTP) keepsSecrets() {
	d.T.Helper()
	if line := d.logs.found.Load(); line != nil {
		d.T.Errorf("log: got %s, want no token in it", *line)
	}
}

// secretLog looks for a token in each line, and keeps no other line.
type secretLog struct {
	zapcore.LevelEnabler
	fields []zapcore.Field
	found  *atomic.Pointer[string]
}

// With implements [zapcore.Core].
func (l *secretLog) With(fields []zapcore.Field) zapcore.Core {
	return &secretLog{l.LevelEnabler, slices.Concat(l.fields, fields), l.found}
}

// Check implements [zapcore.Core].
func (l *secretLog) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, l)
}

// Write implements [zapcore.Core].
func (l *secretLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(l.fields, fields) {
		f.AddTo(values)
	}
	if text := fmt.Sprint(e.Message, values.Fields); strings.Contains(text, TokenSecret) {
		l.found.Store(&text)
	}
	return nil
}

// Sync implements [zapcore.Core].
func (*secretLog) Sync() error { return nil }

// Response is the response to a request.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Field is a text field of a JSON response.
func (a Response) Field(name string) string {
	var fields map[string]any
	_ = json.Unmarshal(a.Body, &fields)
	return fmt.Sprint(fields[name])
}

// Request is a request that is not sent.
func (d *HTTP) Request(token, method, path, body string, header ...string) *http.Request {
	d.T.Helper()
	r, err := http.NewRequestWithContext(d.Ctx, method, d.URL+path, strings.NewReader(body))
	runtest.WantError(d.T, "request", err, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token+TokenSecret)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// Send sends a request and checks the response against the OpenAPI document.
func (d *HTTP) Send(token, method, path, body string, header ...string) Response {
	d.T.Helper()
	r := d.Request(token, method, path, body, header...)
	got, err := d.Client.Do(r)
	runtest.WantError(d.T, method+" "+path, err, nil)
	defer func() { _ = got.Body.Close() }()
	a := Response{Status: got.StatusCode, Header: got.Header}
	a.Body, err = io.ReadAll(got.Body)
	runtest.WantError(d.T, method+" "+path, err, nil)
	if d.Doc != nil {
		d.Doc.Check(d.T, method, r.URL.Path, a.Status, a.Header, a.Body)
	}
	if strings.Contains(string(a.Body), TokenSecret) {
		d.T.Errorf("%s %s: got %s, want no token in it", method, path, a.Body)
	}
	return a
}

// Want sends a request with the writer's token and checks the status of its response.
func (d *HTTP) Want(status int, method, path, body string, header ...string) Response {
	d.T.Helper()
	a := d.Send("writer", method, path, body, header...)
	if a.Status != status {
		d.T.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, a.Status, a.Body, status)
	}
	return a
}

// WantProblem is [HTTP.Want] for problems of a code.
func (d *HTTP) WantProblem(status int, code, method, path, body string, header ...string) Response {
	d.T.Helper()
	a := d.Want(status, method, path, body, header...)
	runtest.Equal(d.T, method+" "+path+" "+body, a.Field("code"), code)
	return a
}

// Message is a server-sent event.
type Message struct{ ID, Name, Data string }

// Stream is an open stream of server-sent events.
type Stream struct {
	d     *HTTP
	Path  string
	body  io.ReadCloser
	lines *bufio.Scanner
	shape *jsonschema.Schema // schema of its events
}

// OpenStream opens a stream. It ends with the test, or before, where the test closes it.
func (d *HTTP) OpenStream(token, path string, header ...string) *Stream {
	d.T.Helper()
	return d.OpenStreamWith(token, http.MethodGet, path, "", header...)
}

// OpenStreamWith is [HTTP.OpenStream] with another method, and a body.
func (d *HTTP) OpenStreamWith(token, method, path, body string, header ...string) *Stream {
	d.T.Helper()
	r := d.Request(token, method, path, body, header...)
	got, err := d.Client.Do(r)
	runtest.WantError(d.T, "stream", err, nil)
	if got.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		d.T.Fatalf("%s: got %d %s, want a stream", path, got.StatusCode, body)
	}
	d.Doc.Check(d.T, method, r.URL.Path, got.StatusCode, got.Header, nil)
	s := &Stream{d: d, Path: path, body: got.Body, lines: ScanMessages(got.Body)}
	s.shape = d.Doc.Paths[d.Doc.Path(method, r.URL.Path)][strings.ToLower(method)].Responses["200"].Content["text/event-stream"].Schema
	d.T.Cleanup(s.Close)
	return s
}

// Close closes the stream.
func (s *Stream) Close() { _ = s.body.Close() }

// Next is the next event; io.EOF where the server ended the stream in order.
func (s *Stream) Next() (Message, error) {
	m, err := NextMessage(s.lines)
	if err != nil {
		return m, err
	}
	shown, err := json.Marshal(map[string]any{"event": m.Name, "id": m.ID, "data": json.RawMessage(m.Data)})
	runtest.WantError(s.d.T, "event", err, nil)
	s.d.Doc.validate(s.d.T, s.Path+" "+m.Name, s.shape, shown)
	return m, nil
}

// ScanMessages scans the lines of a stream of server-sent events.
func ScanMessages(body io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	return lines
}

// NextMessage reads the next server-sent event.
func NextMessage(lines *bufio.Scanner) (m Message, err error) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			m.ID = value
		case "event":
			m.Name = value
		case "data":
			m.Data = value
		case "":
			if m.Name != "" { // an empty name: a comment, or the retry time
				return m, nil
			}
		}
	}
	return m, cmp.Or(lines.Err(), io.EOF)
}

// Until reads events up to the first that enough accepts.
func (s *Stream) Until(enough func(Message) bool) []Message {
	s.d.T.Helper()
	var list []Message
	for {
		m, err := s.Next()
		runtest.WantError(s.d.T, "next event", err, nil)
		list = append(list, m)
		if enough(m) {
			return list
		}
	}
}

// Rescript replaces the rest of the script.
func (m *Model) Rescript(script ...Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Script = append(m.Script[:len(m.received)], script...)
}

// StatusOf is the status of a response, and the code of its problem. It reads no event of a stream.
func (d *HTTP) StatusOf(token, method, path, body string, header ...string) (status int, answer string) {
	d.T.Helper()
	got, err := d.Client.Do(d.Request(token, method, path, body, header...))
	runtest.WantError(d.T, method+" "+path, err, nil)
	defer func() { _ = got.Body.Close() }()
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		return got.StatusCode, "stream"
	}
	data, err := io.ReadAll(got.Body)
	runtest.WantError(d.T, method+" "+path, err, nil)
	return got.StatusCode, string(data)
}
