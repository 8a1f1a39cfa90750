#!/usr/bin/env bash
# github.com/modelcontextprotocol/go-sdk v1.8.0 (Go module), seen on 2026-12-01 with Go 1.26.
#
# Expected: over streamable HTTP a server that answers one tools/call with 403, as the protocol's authorization has it for a call whose token lacks
# a scope (2025-11-25, "Runtime Insufficient Scope Errors"), fails that call; the session that other calls are in goes on, as it does after a 500.
# Seen: after a 403 with a text that is no JSON-RPC message the client closes its session: a call of another tool that is under way fails
# with "connection closed", and so does every later one. After a 500 to the same call with the same text both work. So one tool that a user may not
# call ends the calls of all others, some of which have run at the server. Fails where the session survives the 403, or does not survive the 500.
# It needs Go; all traffic is on 127.0.0.1.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		fmt.Println(status, try(status))
	}
}

// try has three calls: one that takes two seconds, one that is refused meanwhile, and a later one.
func try(status int) string {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	began := make(chan struct{})
	for name, wait := range map[string]time.Duration{"slow": 2 * time.Second, "quick": 0} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			if wait > 0 {
				close(began)
			}
			time.Sleep(wait)
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"refused"`)) {
			http.Error(w, "not for you", status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	defer func() { at.CloseClientConnections(); at.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at.URL}, nil)
	if err != nil {
		return "no session: " + err.Error()
	}
	call := func(name string) string {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}); err != nil {
			return "failed"
		}
		return "works"
	}
	slow := make(chan string, 1)
	go func() { slow <- call("slow") }()
	<-began
	refused := call("refused")
	return fmt.Sprintf("refused=%s underway=%s later=%s", refused, <-slow, call("quick"))
}
GO
go mod init probe >/dev/null 2>&1
go get github.com/modelcontextprotocol/go-sdk/mcp@v1.8.0 >/dev/null 2>&1
go run . | tee out
grep -qx '403 refused=failed underway=failed later=failed' out && grep -qx '500 refused=failed underway=works later=works' out
