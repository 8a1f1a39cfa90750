package places

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

const module = "github.com/lash-go/lash/"

// floors are all packages but those of integration, from the lowest up. A package may import those before it only.
var floors = []struct{ name, packages string }{
	{"which tests run", "internal/runtest"},
	{"events", "events events/localfile events/bodykey events/proof events/eventjson events/tracing events/eventstest"},
	{"the fold", "projector projector/index"},
	{"contracts and state machines", `session/pattern session/keyring session/accesslog session/schema session/api session/memory session/turn session/work session/task session/lock
		session/transcript session/plugin/wire session/plugin/output session/plugin`},
	{"the bus", "bus/delay bus/busembed bus bus/bustest projector/follow"},
	{"parts of the host", `session/internal/callback session/internal/convert session/internal/nodes session/internal/toolset session/blob
		session/decision session/exchange session/hint session/internal/check session/internal/completion session/internal/quota session/internal/states session/operation
		session/archive session/search session/internal/reader session/internal/stack session/internal/watch`},
	{"the host", "session session/sessiontest"},
	{"its doors", "session/client session/service session/httpapi session/webpage session/plugin/remote"},
	{"models and plugins", `workers/llm workers/llm/scripted workers/llm/openai workers/llm/anthropic workers/llm/llmtest workers/recording workers/recording/recordingtest
		workers/internal/process workers/builtin/code/internal/sandbox workers/builtin/standard workers/builtin/builtintest workers/builtin/gate workers/builtin/background workers/builtin/budget workers/builtin/code
		workers/builtin/files workers/builtin/history workers/builtin/planmode workers/builtin/shell
		workers/builtin/subagent workers/builtin/timer workers/builtin/todo workers/builtin/toolsearch`},
	{"parts of the node", `workers/prices workers/telemetry workers/external/stdio workers/external/internal/rate workers/external/internal/setting
		workers/external/internal/result workers/external/internal/callback workers/external/internal/registry workers/external workers/mcp/oauth workers/mcp/oauth/oauthtest workers/mcp workers/internal/call workers/internal/trace
		workers/internal/wake workers/internal/run workers/internal/task workers/hookcheck`},
	{"the node", "workers workers/playback workers/embedded"},
	{"commands", `cmd/internal/program cmd/internal/program/programtest cmd/internal/connect cmd/internal/recheck
		cmd/internal/chat cmd/internal/plugincheck cmd/internal/modelcheck cmd/internal/mcpapi cmd/internal/oidc cmd/lash-node/serve cmd/lash-node cmd/lash-replay`},
	{"examples", `examples/internal/child examples/tool examples/hook examples/state examples/protocol examples/plugin
		examples/conformance examples/slack examples/embedded examples/twonodes examples/owntools examples/typescript`},
}

// TestImportsPointDown compares the imports of each package with the order of the floors. Each package has its place.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	var order []string
	for _, f := range floors {
		order = append(order, strings.Fields(f.packages)...)
	}
	imports := importsOf(t)
	for _, p := range order {
		if _, ok := imports[p]; !ok {
			t.Errorf("%s is in the order, and no package", p)
		}
	}
	for p, list := range imports {
		at := slices.Index(order, p)
		if at < 0 && !strings.HasPrefix(p, "integration/") {
			t.Errorf("%s is not in the order: add it above what it imports", p)
		}
		for _, imported := range list {
			if below := slices.Index(order, imported); at >= 0 && below > at {
				t.Errorf("%s imports %s, which is above it", p, imported)
			}
		}
	}
}

// TestMapHasAllPackages compares the table of ARCHITECTURE.md with the packages, in both directions. A bare name stands
// for a neighbour of the first package in its row, and * for all packages below.
func TestMapHasAllPackages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	runtest.NoError(t, err)
	var named []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1)
		for i, name := range names {
			if i > 0 && !strings.Contains(name[1], "/") && strings.Contains(names[0][1], "/") {
				name[1] = path.Join(path.Dir(names[0][1]), name[1])
			}
			if above, all := strings.CutSuffix(name[1], "/*"); all && strings.Contains(cells[2], "a folder for each") { // the row lists them
				for _, folder := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
					named = append(named, path.Join(above, folder[1]))
				}
				continue
			}
			named = append(named, name[1])
		}
	}
	packages := slices.Collect(maps.Keys(importsOf(t)))
	for _, p := range packages {
		if !slices.ContainsFunc(named, func(name string) bool { return covers(name, p) }) {
			t.Errorf("%s is not in ARCHITECTURE.md", p)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(packages, func(p string) bool { return covers(name, p) }) && !strings.HasPrefix(name, "deploy/") {
			t.Errorf("%s is in ARCHITECTURE.md, and no package", name)
		}
	}
}

// covers reports whether a name of the map stands for a package.
func covers(name, of string) bool {
	above, all := strings.CutSuffix(name, "*")
	return name == of || all && strings.HasPrefix(of, above)
}

// importsOf lists the packages of this module with their imports of this module, tests left out.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	out, err := harness.Go(t.Context(), "list", "-C", "../..", "-json=ImportPath,Imports,GoFiles,TestGoFiles", "./...").Output()
	runtest.NoError(t, err)
	imports := make(map[string][]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath                    string
			Imports, GoFiles, TestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles)+len(p.TestGoFiles) == 0 {
			continue // tests of the folders below
		}
		var list []string
		for _, path := range p.Imports {
			if own, ok := strings.CutPrefix(path, module); ok {
				list = append(list, own)
			}
		}
		imports[strings.TrimPrefix(p.ImportPath, module)] = list
	}
}
