package system

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

// leftOut are the attributes of the conventions that no span has, by the reason.
func leftOut() map[string][]string {
	return map[string][]string{
		"spans have no content": {
			"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions",
			"gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
		},
		"requests of lash do not have it": {
			"gen_ai.request.choice.count", "gen_ai.request.frequency_penalty", "gen_ai.request.presence_penalty", "gen_ai.request.top_k",
			"gen_ai.request.encoding_formats",
		},
		"sessions do not have it": {
			"gen_ai.agent.description", "gen_ai.agent.version", "gen_ai.workflow.name", "gen_ai.data_source.id", "gen_ai.prompt.name",
		},
		"lash has no such operation": {
			"gen_ai.embeddings.dimension.count", "gen_ai.retrieval.documents", "gen_ai.retrieval.query.text", "gen_ai.evaluation.name",
			"gen_ai.evaluation.explanation", "gen_ai.evaluation.score.label", "gen_ai.evaluation.score.value",
		},
		"it is of the metric of tokens": {"gen_ai.token.type"},
	}
}

// guideAttributes are the attributes of spans in the operator's guide, by operation.
func guideAttributes(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	runtest.WantError(t, "guide", err, nil)
	quoted := regexp.MustCompile("`([^`]+)`")
	set := make(map[string][]string)
	_, table, found := strings.Cut(string(data), "| attribute, where there is one | spans |\n")
	runtest.Equal(t, "table of attributes", found, true)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		spans := quoted.FindAllStringSubmatch(cells[2], -1)
		if strings.TrimSpace(cells[2]) == "all" {
			spans = [][]string{{"", "invoke_agent"}, {"", "chat"}, {"", "execute_tool"}}
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			for _, span := range spans {
				set[span[1]] = append(set[span[1]], name[1])
			}
		}
	}
	return set
}

// wantGuide compares spans with the guide's table: no span has another attribute, apart from those of lash, which begin with "lash.".
func wantGuide(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	set := guideAttributes(t)
	for _, s := range spans {
		operation, _, _ := strings.Cut(s.GetName(), " ")
		for _, a := range s.GetAttributes() {
			if !slices.Contains(set[operation], a.GetKey()) && !strings.HasPrefix(a.GetKey(), "lash.") {
				t.Errorf("a span %s has %s, which the guide does not name", operation, a.GetKey())
			}
		}
	}
}

// TestSmokeSpansAreThoseOfTheGuide has a model at an endpoint reply with JSON. The span of the call has the server, the form, and the time to the
// first piece, and spans have no other attribute than those of the guide.
func TestSmokeSpansAreThoseOfTheGuide(t *testing.T) {
	t.Parallel()
	b, r := harness.StartIdle(t), newReceiver(t)
	at := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply { return llmtest.Text(`{"city":`, `"Oslo"}`) })
	provider, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: at})
	runtest.WantError(t, "provider", err, nil)
	spans := r.exporting(1)
	n, err := workers.NewNode(workers.Config{Bus: b.Bus, Providers: map[string]llm.Provider{"openai": provider}, Provider: "openai", Model: "m", Trace: spans.Trace})
	runtest.WantError(t, "node", err, nil)
	runtest.WantError(t, "start", n.Start(b.Ctx), nil)
	id, err := n.Host().Create(b.Ctx, api.CreateRequest{})
	runtest.WantError(t, "create", err, nil)
	form := events.OutputForm{Name: "city", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}
	_, err = n.Host().Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}, Output: form}})
	runtest.WantError(t, "run", err, nil)
	n.Stop(b.Ctx)
	runtest.WantError(t, "stop", spans.Stop(b.Ctx), nil)
	wantGuide(t, r.spans)
	got := make(map[string]string)
	for _, s := range r.spans {
		if strings.HasPrefix(s.GetName(), "chat") {
			for _, a := range s.GetAttributes() {
				got[a.GetKey()] = valueOf(a.GetValue())
			}
			if first := got["gen_ai.response.time_to_first_chunk"]; first == "" || strings.HasPrefix(first, "-") {
				t.Errorf("time to the first chunk: got %q", first)
			}
		}
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(at, "http://"), ":")
	for name, want := range map[string]string{
		"server.address": "127.0.0.1", "server.port": port, "gen_ai.output.type": "json", "gen_ai.request.stream": "bool_value:true",
	} {
		runtest.Equal(t, name, got[name], want)
	}
}

// TestSmokeGuideHasEveryAttribute compares the guide's table, and what is left out, with the attributes of the conventions' Go module.
func TestSmokeGuideHasEveryAttribute(t *testing.T) {
	t.Parallel()
	dir, err := harness.Go(t.Context(), "list", "-f", "{{.Dir}}", "go.opentelemetry.io/otel/semconv/v1.41.0").Output()
	runtest.WantError(t, "find the package", err, nil)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "attribute_group.go"))
	runtest.WantError(t, "read the conventions", err, nil)
	set, left := guideAttributes(t), slices.Concat(slices.Collect(maps.Values(leftOut()))...)
	known := slices.Concat(left, set["invoke_agent"], set["chat"], set["execute_tool"])
	names := regexp.MustCompile(`attribute\.Key\("(gen_ai\.[a-z_.]+)"\)`).FindAllSubmatch(source, -1)
	for _, m := range names {
		if !slices.Contains(known, string(m[1])) {
			t.Errorf("the guide does not have %s", m[1])
		}
	}
	if len(names) < 40 {
		t.Errorf("the conventions have %d attributes, want more", len(names))
	}
	for _, name := range left {
		if slices.Contains(set["invoke_agent"], name) || slices.Contains(set["chat"], name) || slices.Contains(set["execute_tool"], name) {
			t.Errorf("%s is set and left out", name)
		}
	}
}
