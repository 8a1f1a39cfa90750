package main

import (
	"net/http"
	"regexp"
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
	said := p.Ended()
	want := regexp.MustCompile(`^two nodes start
(?:waiting: .*
)*node (one|two) runs the turn, attempt 1
a reply of 1 parts, on node (one|two)
a tool has returned: rain, 8 degrees
node (one|two) is killed
node (one|two) runs the turn, attempt 2
a reply of 1 parts, on node (one|two)
the turn is finished after 2 attempts: In Oslo: rain, 8 degrees$`)
	m := want.FindStringSubmatch(said)
	if m == nil || m[2] != m[1] || m[3] != m[1] || m[4] == m[1] || m[5] != m[4] || calls.Load() != 1 {
		t.Errorf("got %d requests for the call, and\n%s", calls.Load(), said)
	}
}
