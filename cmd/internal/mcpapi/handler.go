package mcpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// handlerWait is the longest wait of a call over HTTP, in seconds: the API ends a response that takes longer.
const handlerWait = 45

// maxRequest limits the body of a request over HTTP.
const maxRequest = 1 << 20

// Handler serves agents over streamable HTTP, each request by itself. The caller has authenticated its requests, and refused those
// whose host is not that of the server; api performs what their tools request, with the credentials that the requests have. One that takes
// JSON alone, or does not say what it takes, gets an answer without the progress of its call.
func Handler(api http.Handler) http.Handler {
	schemas, results := mcp.NewSchemaCache(), resultSchemas() // which a server for one request would make each time
	handler := func(asJSON bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
			return New(Config{Base: "http://" + r.Host, Transport: &within{api, r}, maxWait: handlerWait, schemas: schemas, results: results})
		}, &mcp.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: maxRequest, DisableLocalhostProtection: true, JSONResponse: asJSON})
	}
	stream, whole := handler(false), handler(true)
	return single(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepts := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
		has := func(kinds ...string) bool {
			return slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(accepts, kind) })
		}
		next, known := whole, accepts == "" || has("application/json", "application/*")
		if has("text/event-stream", "text/*", "*/*") {
			next, known = stream, true
		}
		if known { // the protocol wants clients to take both, and the library serves no others
			r.Header.Set("Accept", "application/json, text/event-stream")
		}
		next.ServeHTTP(w, r)
	}))
}

// single refuses a list of messages, which later versions of the protocol do not have: its calls would run at once, as one
// request of the caller's limits, and their answers wait in memory for each other.
func single(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, fmt.Sprintf("the request has more than %d bytes", maxRequest), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the request ended", http.StatusBadRequest)
			return
		}
		if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '[' {
			http.Error(w, "a request has one message, and this is a list: send each in a request of its own", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		answer := &answering{ResponseWriter: w, request: data}
		next.ServeHTTP(answer, r)
		if answer.held { // it has no text
			w.WriteHeader(http.StatusBadRequest)
		}
	})
}

// answering answers a request of a method that the library does not know with an error of the protocol, and takes such a notification: the
// library refuses both with a text, and clients end their connection at that.
type answering struct {
	http.ResponseWriter
	request []byte
	held    bool // the status is a refusal, and waits for its text
}

// notHandled is in the text of such a refusal.
const notHandled = "JSON RPC not handled"

// Unwrap implements the interface of [http.ResponseController].
func (w *answering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *answering) WriteHeader(status int) {
	if w.held = status == http.StatusBadRequest; !w.held {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *answering) Write(data []byte) (int, error) {
	if !w.held {
		return w.ResponseWriter.Write(data)
	}
	w.held = false
	if !bytes.Contains(data, []byte(notHandled)) {
		w.ResponseWriter.WriteHeader(http.StatusBadRequest)
		return w.ResponseWriter.Write(data)
	}
	var in struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(w.request, &in) != nil || len(in.ID) == 0 {
		w.ResponseWriter.WriteHeader(http.StatusAccepted)
		return len(data), nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(http.StatusOK)
	err := json.NewEncoder(w.ResponseWriter).Encode(map[string]any{
		"jsonrpc": "2.0", "id": in.ID, "error": map[string]any{"code": jsonrpc.CodeMethodNotFound, "message": fmt.Sprintf("there is no method %.100q", in.Method)},
	})
	return len(data), err
}

// within performs requests in this process, as the sender of another request, and no longer than that one: older versions of the
// protocol let a call go on where its sender has left, and then it would count among the caller's.
type within struct {
	api http.Handler
	as  *http.Request
}

// RoundTrip implements [http.RoundTripper].
func (t *within) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	left := context.AfterFunc(t.as.Context(), cancel)
	in := t.as.Clone(&both{ctx, t.as.Context()})
	in.Method, in.URL, in.RequestURI, in.Header = r.Method, r.URL, "", r.Header.Clone()
	in.Body, in.ContentLength = http.NoBody, 0
	if r.Body != nil {
		in.Body, in.ContentLength = r.Body, r.ContentLength
	}
	for _, name := range []string{"Authorization", "Traceparent", "Tracestate"} {
		if values := t.as.Header.Values(name); len(values) > 0 {
			in.Header[name] = values
		}
	}
	body, written := io.Pipe()
	w := &response{header: make(http.Header), body: written, started: make(chan struct{})}
	go func() { // ends with the request, whose context ends with that of the tool
		defer cancel()
		defer left()
		defer w.end()
		t.api.ServeHTTP(w, in)
	}()
	<-w.started
	return &http.Response{StatusCode: w.status, Header: w.header, Body: body, Request: r}, nil
}

// both is a context that ends with the first one, and has the values of the second one.
type both struct {
	context.Context                 //nolint:containedctx // it is a context
	values          context.Context //nolint:containedctx // of the same request
}

// Value implements [context.Context].
func (b *both) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}

// response is a response that is read while it is written.
type response struct {
	header  http.Header
	status  int
	body    *io.PipeWriter
	once    sync.Once
	started chan struct{} // closed with the status
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.started)
	})
}

// Write implements [http.ResponseWriter].
func (w *response) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(data)
}

// FlushError implements the interface of [http.ResponseController]: what is written is read at once.
func (*response) FlushError() error { return nil }

// end ends the response. A handler that cuts it off panics.
func (w *response) end() {
	var err error
	if recover() != nil {
		err = errors.New("the response was cut off")
	}
	w.WriteHeader(http.StatusBadGateway)
	_ = w.body.CloseWithError(err)
}
