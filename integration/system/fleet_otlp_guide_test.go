package system

import (
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
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

// guideAttributes are the attributes of the operator's guide: those that spans have, by operation, and those that are left out.
func guideAttributes(t *testing.T) (set map[string][]string, leftOut []string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	harness.WantError(t, "guide", err, nil)
	quoted := regexp.MustCompile("`([^`]+)`")
	set = make(map[string][]string)
	_, tables, found := strings.Cut(string(data), "| attribute | spans | when |\n")
	harness.Equal(t, "table of attributes", found, true)
	tables, _, _ = strings.Cut(tables, "`TestSpansReceived`")
	tables, without, found := strings.Cut(tables, "| left out | because |\n")
	harness.Equal(t, "table of left out attributes", found, true)
	for line := range strings.Lines(tables) {
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
	for line := range strings.Lines(without) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
				leftOut = append(leftOut, name[1])
			}
		}
	}
	return set, leftOut
}

// wantGuide compares spans with the guide's table: no span has another attribute, apart from those of lash, which begin with "lash.".
func wantGuide(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	set, _ := guideAttributes(t)
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
// first piece. Every attribute of the conventions is in the guide: set, or left out with the reason.
func TestSmokeSpansAreThoseOfTheGuide(t *testing.T) {
	t.Parallel()
	b, r := harness.StartIdle(t), newReceiver(t)
	at := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply { return llmtest.Text(`{"city":`, `"Oslo"}`) })
	provider, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: at})
	harness.WantError(t, "provider", err, nil)
	spans := r.exporting(1)
	n, err := workers.NewNode(workers.Config{Bus: b.Bus, Providers: map[string]llm.Provider{"openai": provider}, Provider: "openai", Model: "m", Trace: spans.Trace})
	harness.WantError(t, "node", err, nil)
	harness.WantError(t, "start", n.Start(b.Ctx), nil)
	id, err := n.Host().Create(b.Ctx, api.CreateRequest{})
	harness.WantError(t, "create", err, nil)
	form := events.OutputForm{Name: "city", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}
	_, err = n.Host().Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}, Output: form}})
	harness.WantError(t, "run", err, nil)
	n.Stop(b.Ctx)
	harness.WantError(t, "stop", spans.Stop(b.Ctx), nil)
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
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

// TestSmokeGuideHasEveryAttribute compares the guide's tables with the attributes of the conventions' Go module.
func TestSmokeGuideHasEveryAttribute(t *testing.T) {
	t.Parallel()
	dir, err := harness.Go(t.Context(), "list", "-f", "{{.Dir}}", "go.opentelemetry.io/otel/semconv/v1.41.0").Output()
	harness.WantError(t, "find the package", err, nil)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "attribute_group.go"))
	harness.WantError(t, "read the conventions", err, nil)
	set, leftOut := guideAttributes(t)
	known := slices.Concat(leftOut, set["invoke_agent"], set["chat"], set["execute_tool"])
	names := regexp.MustCompile(`attribute\.Key\("(gen_ai\.[a-z_.]+)"\)`).FindAllSubmatch(source, -1)
	for _, m := range names {
		if !slices.Contains(known, string(m[1])) {
			t.Errorf("the guide does not have %s", m[1])
		}
	}
	if len(names) < 40 {
		t.Errorf("the conventions have %d attributes, want more", len(names))
	}
	for _, name := range leftOut {
		if slices.Contains(set["invoke_agent"], name) || slices.Contains(set["chat"], name) || slices.Contains(set["execute_tool"], name) {
			t.Errorf("%s is set and left out", name)
		}
	}
}
