package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// TestOwnTools runs a turn that calls the program's tool, and stops the node.
func TestOwnTools(t *testing.T) {
	t.Parallel()
	model := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if results := llmtest.Results(req); len(results) > 0 {
			return llmtest.Text("In Oslo: " + results[0].Text)
		}
		return llmtest.Calls(events.Part{Call: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`)})
	})
	store := filepath.Join(t.TempDir(), "st")
	node := child.Start(t, []string{"OPENAI_BASE_URL=" + model}, "--store", store, "--listen", "127.0.0.1:0", "--model", "m")
	node.Await("serving, provider openai")
	runtest.Equal(t, "ask", child.Ask(t, store, "What is it like in Oslo?"), "In Oslo: rain, 8 degrees")
	node.Signal(syscall.SIGTERM)
	if output := node.Ended(); !strings.Contains(output, "handing running turns over") {
		t.Errorf("got %s, want the end of a node", output)
	}
}

// TestHelp prints the tool among the plugins, and the flags of lash-node serve.
func TestHelp(t *testing.T) {
	t.Parallel()
	output := child.Start(t, nil, "--help").Ended()
	for _, want := range []string{"weather     of this program", "--plugins=", "--nats=", "--http-tokens=", "--config="} {
		runtest.Contains(t, "--help", output, want)
	}
}

// TestLongAllFlags compares the flags of the program with those of lash-node serve, both ways.
func TestLongAllFlags(t *testing.T) {
	t.Parallel()
	serve, err := exec.CommandContext(t.Context(), "go", "run", "../../cmd/lash-node", "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, serve)
	}
	want, got := flags(string(serve)), flags(child.Start(t, nil, "--help").Ended())
	if !slices.Equal(got, want) || len(want) < 30 {
		t.Errorf("flags: got %q, want the %d of lash-node serve: %q", got, len(want), want)
	}
}

// flags are the names of the flags that a help lists, sorted.
func flags(help string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?(--[a-z\[][a-z\[\]-]+)`).FindAllStringSubmatch(help, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}
