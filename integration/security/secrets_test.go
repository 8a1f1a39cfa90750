package security

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/openai"
	"github.com/lash-go/lash/workers/telemetry"
)

// What must be seen nowhere.
const (
	secretOpenAI    = "sk-secret-of-openai-0123456789"
	secretAnthropic = "sk-ant-secret-of-anthropic-0123456789"
	secretPassword  = "secret-password-of-nats"
	secretToken     = "secret-token-of-nats"
	secretBearer    = "secret-bearer-of-http"
	secretGuess     = "secret-guess-of-http"
)

// damagedState is a service that cannot read a session's state, for a reason that no API knows.
type damagedState struct{ operation.Host }

func (damagedState) State(context.Context, events.SessionID) (*projector.State, error) {
	return nil, errors.New("the state is damaged")
}

// guarded sends requests with the token, with another one, and with the token in the wrong place.
func guarded(t *testing.T, service operation.Host, log *zap.Logger) []byte {
	t.Helper()
	server, err := httpapi.New(httpapi.Config{
		Service: service, Logger: log, Tokens: []httpapi.Token{{Name: "me", Digest: sha256.Sum256([]byte(secretBearer)), Scope: api.ScopeAdmin}},
	})
	runtest.WantError(t, "door", err, nil)
	defer server.Drain()
	var output bytes.Buffer
	for _, c := range []struct {
		token, query string
		status       int
	}{{secretBearer, "", 500}, {secretGuess, "", 401}, {secretBearer, "?token=" + secretBearer, 400}} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(harness.Context(t), http.MethodGet, "/v1/sessions/s1"+c.query, nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		server.ServeHTTP(w, r)
		runtest.Equal(t, "status", w.Code, c.status)
		_ = w.Result().Header.Write(&output)
		output.Write(w.Body.Bytes())
	}
	// The request is recorded in the history, with the token's name.
	r := httptest.NewRequestWithContext(harness.Context(t), http.MethodPost, "/v1/sessions", strings.NewReader(`{"id":"s1"}`))
	r.Header.Set("Authorization", "Bearer "+secretBearer)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	runtest.Equal(t, "status", w.Code, http.StatusCreated)
	return output.Bytes()
}

// leaky responds for the model good, and refuses all others with the client's key in the response, as some real
// endpoints do.
func leaky(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		if !strings.Contains(key, "secret") {
			t.Errorf("%s: got no key", r.URL)
		}
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"model":"good"`)) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", key)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","code":"invalid_api_key","message":"Incorrect API key provided: %s"}}`, key)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestNoSecretIsKept runs turns with secrets in every setting, and searches for them in every byte of the store,
// every log line, every trace line, every exported span and every HTTP response.
func TestNoSecretIsKept(t *testing.T) {
	t.Parallel()
	endpoint := leaky(t)
	first, err := openai.New(openai.Config{APIKey: secretOpenAI, BaseURL: endpoint.URL})
	runtest.WantError(t, "provider", err, nil)
	second, err := anthropic.New(anthropic.Config{APIKey: secretAnthropic, BaseURL: endpoint.URL})
	runtest.WantError(t, "provider", err, nil)
	core, logged := observer.New(zapcore.DebugLevel)
	log, dir, file := zap.New(core), t.TempDir(), filepath.Join(t.TempDir(), "trace")
	trace, err := workers.OpenTraceFile(file, log)
	runtest.WantError(t, "trace", err, nil)
	server := bustest.Server(t, busembed.Config{StoreDir: dir})
	b, err := bus.Open(harness.Context(t), bus.Config{Options: []nats.Option{server.InProcess(), nats.UserInfo("me", secretPassword), nats.Token(secretToken)}, Logger: log})
	runtest.WantError(t, "open", err, nil)
	exported := harness.SpanExporter{InMemoryExporter: tracetest.NewInMemoryExporter()}
	spans := telemetry.NewSpans(exported, 1)
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{
		harness.LifecyclePlugin("asks", func(ctx context.Context, _ plugin.LifecycleKind) error { // its error is logged
			_, err := first.Complete(ctx, llm.Request{Model: "bad", Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{harness.Text("hello")}}}}, func(llm.Delta) {})
			return err
		}),
	}})
	runtest.WantError(t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b, Providers: map[string]llm.Provider{"openai": first, "anthropic": second},
		Plugins: builder, Logger: log, Trace: func(r api.TraceRecord) { trace.Trace(r); spans.Trace(r) }, ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: time.Millisecond},
	})
	runtest.WantError(t, "node", err, nil)
	ctx := harness.Context(t)
	runtest.WantError(t, "start", n.Start(ctx), nil)
	for _, model := range []events.Config{{Provider: "openai", Model: "good"}, {Provider: "openai", Model: "bad"}, {Provider: "anthropic", Model: "bad"}} {
		id, err := n.Host().Create(ctx, api.CreateRequest{Config: model})
		runtest.WantError(t, "create", err, nil)
		got, err := n.Host().Run(ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{harness.Text("hello")}}})
		runtest.WantError(t, "run", err, nil)
		if fine := got.Text == "fine"; fine != (model.Model == "good") {
			t.Errorf("%+v: got %q (%s)", model, got.Text, got.End)
		}
	}
	answers := guarded(t, damagedState{n.Host()}, log)
	n.Stop(context.WithoutCancel(ctx))
	b.Close()
	runtest.WantError(t, "close trace", trace.Close(ctx), nil)
	runtest.WantError(t, "stop spans", spans.Stop(ctx), nil)
	lines := rendered(t, logged.All())
	for _, line := range []string{"Incorrect API key provided", "the state is damaged"} {
		if !bytes.Contains(lines, []byte(line)) {
			t.Errorf("log: got no line with %q, so nothing was tried", line)
		}
	}
	server.Stop() // everything is on disk
	for name, body := range map[string][]byte{
		"log": lines, "trace": content(t, file), "store": content(t, dir), "spans": spansOf(exported), "answers": answers,
	} {
		if len(body) == 0 {
			t.Errorf("%s: is empty", name)
		}
		for _, secret := range []string{secretOpenAI, secretAnthropic, secretPassword, secretToken, secretBearer, secretGuess} {
			if i := bytes.Index(body, []byte(secret)); i >= 0 {
				t.Errorf("%s has %s: ...%q", name, secret, body[max(0, i-200):i])
			}
		}
	}
	if !bytes.Contains(content(t, dir), []byte("Incorrect API key provided")) {
		t.Error("store: the failure is not in it, so nothing was tried")
	}
}

// TestNoSecretInErrors connects to a URL with a user and a password, where no server listens.
func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"nats://me:" + secretPassword + "@127.0.0.1:1", "nats://" + secretToken + "@127.0.0.1:1",
		"nats://127.0.0.1:1,nats://me:" + secretPassword + "@127.0.0.1:1", "nats://me:" + secretPassword + "@127.0.0.1:port",
		"nats://me:" + secretPassword + "%zz@127.0.0.1:1",
	} {
		_, err := bus.Open(t.Context(), bus.Config{URL: url})
		switch {
		case err == nil:
			t.Errorf("%s: connected", url)
		case strings.Contains(err.Error(), secretPassword), strings.Contains(err.Error(), secretToken):
			t.Errorf("got %v, want it without the secret", err)
		case !strings.Contains(err.Error(), "127.0.0.1"):
			t.Errorf("got %v, want the address", err)
		}
	}
}

// spansOf is the text of all spans.
func spansOf(exported harness.SpanExporter) []byte {
	var all []byte
	for _, s := range exported.GetSpans() {
		all = fmt.Appendf(all, "%+v\n", s)
	}
	return all
}

// rendered are log entries as they would be written.
func rendered(t *testing.T, list []observer.LoggedEntry) []byte {
	t.Helper()
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	var all bytes.Buffer
	for _, e := range list {
		line, err := encoder.EncodeEntry(e.Entry, e.Context)
		runtest.NoError(t, err)
		all.Write(line.Bytes())
		line.Free()
	}
	return all.Bytes()
}

// content is every byte of a file, or of all files below a directory.
func content(t *testing.T, path string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	runtest.NoError(t, err)
	return all
}
