#!/usr/bin/env bash
# github.com/modelcontextprotocol/go-sdk v1.8.0 (Go module), seen on 2026-11-30 with Go 1.26.
#
# Expected: the context of Client.Connect bounds the connecting, as it does with the transport of streamable HTTP, and a session that
# is open outlives it.
# Seen: with SSEClientTransport the stream that has all answers is requested with that context. A context with a deadline for the start
# therefore ends the open session at the deadline: the next call fails with "connection closed". The same client, server and
# context over StreamableClientTransport goes on.
# Fails where the call over SSE is answered, or that over streamable HTTP is not. It needs Go.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'G'
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hello"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	get := func(*http.Request) *mcp.Server { return server }
	sse, streamable := httptest.NewServer(mcp.NewSSEHandler(get, nil)), httptest.NewServer(mcp.NewStreamableHTTPHandler(get, nil))
	for name, transport := range map[string]mcp.Transport{
		"sse": &mcp.SSEClientTransport{Endpoint: sse.URL}, "streamable": &mcp.StreamableClientTransport{Endpoint: streamable.URL},
	} {
		start, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		session, err := mcp.NewClient(&mcp.Implementation{Name: "probe", Version: "1"}, nil).Connect(start, transport, nil)
		if err != nil {
			log.Fatal(name, ": ", err)
		}
		call := func() error {
			limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := session.CallTool(limit, &mcp.CallToolParams{Name: "hello"})
			return err
		}
		if err := call(); err != nil {
			log.Fatal(name, ", before the deadline: ", err)
		}
		<-start.Done()
		cancel()
		time.Sleep(500 * time.Millisecond)
		fmt.Printf("%s: after the deadline of Connect's context a call ends with %v\n", name, call())
	}
}
G
go mod init probe >/dev/null 2>&1
go get github.com/modelcontextprotocol/go-sdk/mcp@v1.8.0 >/dev/null 2>&1
go run . | sort | tee seen
grep -q '^sse: .* call ends with .*closed' seen
grep -q '^streamable: .* call ends with <nil>$' seen
echo "as seen on 2026-11-30"
