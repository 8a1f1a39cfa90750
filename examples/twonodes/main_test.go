package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// TestTwoNodes has a model that replies at once. The node of the turn is killed before its next model call, the turn
// ends on the other node, and the recorded call does not run again.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	model := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		results := llmtest.Results(req)
		if len(results) == 0 {
			calls.Add(1)
			return llmtest.Calls(events.Part{Call: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`)})
		}
		return llmtest.Text("In Oslo: " + results[0].Text)
	})
	server := bustest.Server(t, busembed.Config{Listen: true})
	p := child.Start(t, []string{"OPENAI_BASE_URL=" + model}, server.URL(), "What is it like in Oslo?")
	output := p.Ended()
	want := regexp.MustCompile(`^two nodes start
(?:waiting: .*
)*node (one|two) runs the turn, attempt 1
a reply of 1 part, on node (one|two)
a tool has returned: rain, 8 degrees
node (one|two) is killed
node (one|two) runs the turn, attempt 2
a reply of 1 part, on node (one|two)
the turn is finished after 2 attempts: In Oslo: rain, 8 degrees$`)
	m := want.FindStringSubmatch(output)
	if m == nil || m[2] != m[1] || m[3] != m[1] || m[4] == m[1] || m[5] != m[4] || calls.Load() != 1 {
		t.Errorf("got %d requests for the call, and\n%s", calls.Load(), output)
	}
}

// TestTwoNodesWithoutAnswer has an endpoint that does not know the model: its reason is printed, and the program fails.
func TestTwoNodesWithoutAnswer(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"there is no model m"}}`, http.StatusNotFound)
	}))
	t.Cleanup(model.Close)
	server := bustest.Server(t, busembed.Config{Listen: true})
	output := child.Start(t, []string{"OPENAI_BASE_URL=" + model.URL}, server.URL(), "What is it like in Oslo?").Failed(1)
	for _, part := range []string{"the turn ended without an answer after 1 attempt: provider_error: ", "there is no model m", "MODEL say which model is asked"} {
		if !strings.Contains(output, part) {
			t.Errorf("got %s, want %q in it", output, part)
		}
	}
}

// TestTwoNodesUnknownModel names no model: the program fails before it starts a node, with the list.
func TestTwoNodesUnknownModel(t *testing.T) {
	t.Parallel()
	model := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply { return llmtest.Text("no") })
	for name, want := range map[string]string{
		"": "MODEL: no model is named: openai has gpt-4o-mini, m",
	} {
		output := child.Start(t, []string{"OPENAI_BASE_URL=" + model, "MODEL=" + name}, "nats://127.0.0.1:1", "What?").Failed(1)
		if !strings.HasSuffix(output, want) || strings.Contains(output, "two nodes start") {
			t.Errorf("MODEL=%s: got %s, want only %q", name, output, want)
		}
	}
}

// TestTwoNodesEnd has no server at the address: the nodes end, and the program does.
func TestTwoNodesEnd(t *testing.T) {
	t.Parallel()
	output := child.Start(t, []string{"OPENAI_BASE_URL=http://127.0.0.1:1"}, "nats://127.0.0.1:1", "What is it like in Oslo?").Failed(1)
	for _, part := range []string{"connect to nats://127.0.0.1:1: ", "both nodes have ended"} {
		if !strings.Contains(output, part) {
			t.Errorf("got %s, want %q in it", output, part)
		}
	}
}
