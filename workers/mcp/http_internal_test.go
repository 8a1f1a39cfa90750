package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/internal/runtest"
)

// TestMissingSession sends requests of a call to servers that answer with all sequences of codes. Only a 404 in answer to the request
// that has the call, to its last address, says that the server has not handled the call, and that it may in another session.
func TestMissingSession(t *testing.T) {
	t.Parallel()
	codes := []int{http.StatusOK, http.StatusTemporaryRedirect, http.StatusNotFound, http.StatusServiceUnavailable}
	for _, first := range codes {
		for _, second := range codes {
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				for _, session := range []string{"", "1"} {
					if got, want := missing(t, method, session, first, second), session != "" &&
						(first == http.StatusNotFound || first == http.StatusTemporaryRedirect && second == http.StatusNotFound && method == http.MethodPost); got != want {
						t.Errorf("session %q, POST with %d, %s with %d: got missing %t, want %t", session, first, method, second, got, want)
					}
				}
			}
		}
	}
}

// TestSessionWords has what servers say of a session that they do not have, and what others say of something else.
func TestSessionWords(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]bool{
		"Bad Request: No valid session ID provided": true, "Bad Request: No valid session ID or not an initialize request": true, "Invalid session ID or session expired": true,
		"Session not found. Please reinitialize.": true, "Session not found, please re-initialize": true, "Session expired or closed": true, "Session not found: 1-a": true,
		"Not Found: Unknown Mcp-Session-Id header": true, "Bad Request: Server not initialized": true, "The session has expired; reconnect": true, "no such session": true,
		"Session with ID abc-1 not found": true, "Session 'abc' is not known": false, "Failed to find session": true, "Session doesn't exist": true, "Session timed out": true,
		"SESSION_NOT_FOUND": true, "Session not found. Please start a new session.": true, "Unknown or expired session": true, "Transport not found for sessionId": true, "Session `abc` has been lost": true,
		"Could not find session file": false, "Unknown session variable": false, "the call is not in the session": false, "the session is initialized": false,
		"the browser session has a page open": false, "Session not found in the database, a row was deleted": false, "Invalid session or the file is written": false,
		"x is missing": false, "No valid session for the user could be billed": false, "": false,
	} {
		runtest.Equal(t, fmt.Sprintf("%q", words), (&refusal{status: http.StatusBadRequest, session: "abc", body: words}).forgets(), want)
	}
}

// missing sends a POST and another request of a call, whose answers have these codes.
func missing(t *testing.T, method, session string, codes ...int) bool {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[n])
		n++
	}))
	defer server.Close()
	call := &attempt{}
	ctx := context.WithValue(t.Context(), attemptKey{}, call)
	run := newTestRun(t)
	run.server.URL = server.URL
	through := newWeb(run)
	for i, method := range []string{http.MethodPost, method} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
		switch {
		case method == http.MethodGet:
			body = ""
		case i > 0 && codes[0] != http.StatusTemporaryRedirect: // the library tells the server of the end
			body = `{"jsonrpc":"2.0","method":"notifications/cancelled"}`
		}
		r, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader(body))
		runtest.NoError(t, err)
		if session != "" {
			r.Header.Set(sessionHeader, session)
		}
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Fatal(fmt.Errorf("request %d: %w", i, err))
		}
		_ = answer.Body.Close()
	}
	over := call.refused.Load()
	return over != nil && over.forgets()
}

// TestRefusedCallEndsAlone has a server refuse a call while another one is under way: that one and later ones work. Where the session ends
// after it, the reason is errNoSession: the run is restarted, and no failure is reported.
func TestRefusedCallEndsAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusInternalServerError} {
		began, refused := make(chan struct{}), make(chan struct{})
		tools := mcp.NewServer(&mcp.Implementation{Name: "srv", Version: "1"}, nil)
		mcp.AddTool(tools, &mcp.Tool{Name: "slow"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			close(began)
			<-refused
			return &mcp.CallToolResult{}, nil, nil
		})
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "forbidden") {
				w.WriteHeader(status)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			handler.ServeHTTP(w, r)
		}))
		t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
		run := newTestRun(t)
		run.server.URL = server.URL
		_, err := run.connect(protocolVersion)
		runtest.NoError(t, err)
		call := func(name string) error {
			_, err := run.client.CallTool(context.WithValue(t.Context(), attemptKey{}, &attempt{}), &mcp.CallToolParams{Name: name, Arguments: map[string]any{}})
			return err
		}
		underWay := make(chan error, 1)
		go func() { underWay <- call("slow") }()
		<-began
		if call("forbidden") == nil {
			t.Errorf("%d: got no error of the refused call", status)
		}
		close(refused)
		runtest.WantError(t, fmt.Sprintf("%d: the call that was under way", status), <-underWay, nil)
		_ = run.client.Close()
		<-run.ctx.Done()
		if err := context.Cause(run.ctx); !errors.Is(err, errNoSession) {
			t.Errorf("%d: got the end %v, want %v", status, err, errNoSession)
		}
	}
}

// TestRedirectsThatLoseTheMessage: a redirect after which a request has no body says what to do.
func TestRedirectsThatLoseTheMessage(t *testing.T) {
	t.Parallel()
	for status, lost := range map[int]bool{http.StatusMovedPermanently: true, http.StatusFound: true, http.StatusTemporaryRedirect: false, http.StatusPermanentRedirect: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/secret" {
				http.Redirect(w, r, "/secret/", status)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}))
		run := newTestRun(t)
		run.server.URL = server.URL + "/secret"
		_, err := run.connect(protocolVersion)
		if err == nil || strings.Contains(err.Error(), "give that as the url") != lost {
			t.Errorf("%d: got %v, want it to say that the address is another one: %t", status, err, lost)
		}
		server.Close()
	}
}
