package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// mcpNeeds has the right that each tool needs and its arguments, where SESSION stands for the session of another caller.
var mcpNeeds = map[string]struct {
	right   string
	session bool // it is about that session
	args    map[string]any
}{
	"create_session":  {"write", false, map[string]any{}},
	"list_sessions":   {"read", false, map[string]any{}},
	"run_turn":        {"write", true, map[string]any{"text": "x", "turn": "t1", "wait_seconds": 0}},
	"wait_turn":       {"read", true, map[string]any{"turn": "t1", "wait_seconds": 0}},
	"cancel_turn":     {"write", true, map[string]any{"turn": "t1"}},
	"list_approvals":  {"read", true, map[string]any{}},
	"answer_approval": {"approve", true, map[string]any{"call": "t1/0/0", "granted": true}},
	"read_session":    {"read", true, map[string]any{}},
	"read_history":    {"read", true, map[string]any{}},
	"search_history":  {"read", true, map[string]any{"text": "x"}},
}

// httpPut sends a request of a token.
func httpPut(t *testing.T, method, url, token, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	runtest.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	runtest.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	_, _ = io.Copy(io.Discard, got.Body)
	return got.StatusCode
}

// TestLongMCPRights has agents with every scope and grant call every tool in a session of alice, and read it as a resource. What
// the rights do not allow is refused, and without a grant the session is as one that does not exist. A tool that is not in
// the table fails the test.
func TestLongMCPRights(t *testing.T) {
	t.Parallel()
	var tokens bytes.Buffer
	callers := map[string]struct {
		line   string
		grant  string
		has    []string
		beyond []string
	}{
		"owner":        {"alice admin %x own", "", []string{"read", "write", "approve"}, []string{"read", "write"}},
		"none":         {"bob admin %x own", "", nil, []string{"read", "write"}},
		"read":         {"carl admin %x own", `["read"]`, []string{"read"}, []string{"read", "write"}},
		"read_write":   {"dora admin %x own", `["read","write"]`, []string{"read", "write"}, []string{"read", "write"}},
		"read_approve": {"emil admin %x own", `["read","approve"]`, []string{"read", "approve"}, []string{"read", "write"}},
		"scope_read":   {"fred read %x", "", []string{"read"}, []string{"read"}},
		"scope_write":  {"gina read,write %x", "", []string{"read", "write"}, []string{"read", "write"}},
		"scope_admin":  {"hans admin %x", "", []string{"read", "write", "approve"}, []string{"read", "write"}},
	}
	for who, c := range callers {
		fmt.Fprintf(&tokens, c.line+"\n", sha256.Sum256([]byte(who)))
	}
	fmt.Fprintf(&tokens, "ivo write %x tenant=globex\njane approve,command %x\n", sha256.Sum256([]byte("tenant")), sha256.Sum256([]byte("blind")))
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", file(t, "tokens", tokens.Bytes()))
	defer n.stop(t, syscall.SIGTERM)
	for token, want := range map[string]int{"tenant": 401, "blind": 403, "nobody": 401} {
		runtest.Equal(t, token, httpPut(t, http.MethodPost, n.http+"/mcp", token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), want)
	}
	var all []string
	agents := make(map[string]*agent)
	for who, c := range callers {
		id := "s-" + strings.ReplaceAll(who, "_", "-")
		if got := httpPut(t, http.MethodPost, n.http+"/sessions", "owner", fmt.Sprintf(`{"id":%q,"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"a needle"}]}}]}`, id)); got != 201 {
			t.Fatalf("create: got %d", got)
		}
		if c.grant != "" {
			name, _, _ := strings.Cut(c.line, " ")
			if got := httpPut(t, http.MethodPut, n.http+"/sessions/"+id+"/grants/"+name, "owner", `{"rights":`+c.grant+`}`); got != 204 {
				t.Fatalf("grant: got %d", got)
			}
		}
		a := startAgent(t, overHTTP(t, n.http, who))
		all, agents[who] = append(all, id), a
		tools, err := a.c.ListTools(t.Context(), nil)
		runtest.NoError(t, err)
		for _, tool := range tools.Tools {
			row, known := mcpNeeds[tool.Name]
			if !known {
				t.Errorf("%s: got no right that it needs here", tool.Name)
				continue
			}
			args := maps.Clone(row.args)
			if row.session {
				args["session"] = id
			}
			has := c.beyond
			if row.session {
				has = c.has
			}
			checkRefusal(t, who+": "+tool.Name, a.call(tool.Name, args, nil), slices.Contains(has, row.right), row.session && len(c.has) == 0)
		}
		_, err = a.c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "lash://sessions/" + id})
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		checkRefusal(t, who+": resource", failure, slices.Contains(c.has, "read"), len(c.has) == 0)
	}
	checkFound(t, "owner", agents["owner"], all...)
	for who, c := range callers {
		want := all
		if who != "owner" && strings.HasSuffix(c.line, " own") {
			want = nil
			if slices.Contains(c.has, "read") {
				want = []string{"s-" + strings.ReplaceAll(who, "_", "-")}
			}
		}
		checkFound(t, who, agents[who], slices.Clone(want)...)
	}
}

// checkFound searches in all sessions as an agent, until it finds a number of them: the directory is behind.
func checkFound(t *testing.T, who string, a *agent, want ...string) {
	t.Helper()
	var got []string
	bustest.Eventually(t, fmt.Sprintf("%d sessions for %s", len(want), who), func() bool {
		var page struct{ Sessions []struct{ ID string } }
		a.do("search_history", map[string]any{"text": "NEEDLE", "limit": 100}, &page)
		got = got[:0]
		for _, s := range page.Sessions {
			got = append(got, s.ID)
		}
		slices.Sort(got)
		return len(got) >= len(want)
	})
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s: search in all sessions: got %v, want %v", who, got, want)
	}
}

// checkRefusal compares the failure of a tool, which may have other reasons than rights.
func checkRefusal(t *testing.T, what, failure string, allowed, hidden bool) {
	t.Helper()
	none, forbidden := strings.Contains(failure, "no_session"), strings.Contains(failure, "forbidden")
	if none != hidden || forbidden != (!allowed && !hidden) {
		t.Errorf("%s: got %q, want it allowed %t, hidden %t", what, failure, allowed, hidden)
	}
}
