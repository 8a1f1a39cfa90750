package system

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestUsageBySource reads the usage of a session over HTTP: of its own turns, of a direct completion and of a child.
func TestUsageBySource(t *testing.T) {
	t.Parallel()
	const model = "m"
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("aside")), harness.Reply(harness.Text("two")))
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	id := b.Open(api.CreateRequest{ID: "s1", Config: events.Config{Model: model}})
	usage := func() string {
		var got struct{ Usage json.RawMessage }
		runtest.WantError(t, "session", json.Unmarshal(d.Want(200, "GET", "/v1/sessions/s1", "").Body, &got), nil)
		return string(got.Usage)
	}
	entry := func(source string) string {
		return fmt.Sprintf(`{"source":%q,"model":%q,"usage":{"input_tokens":10,"output_tokens":5}}`, source, model)
	}
	runtest.Equal(t, "before the first turn", usage(), "[]")
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "after a turn", usage(), "["+entry("turn")+"]")
	d.Want(200, "POST", "/v1/sessions/s1/completions", `{"source":"title","messages":[{"role":"user","parts":[{"type":"text","text":"a title?"}]}]}`)
	runtest.Equal(t, "after a completion", usage(), "["+entry("title")+","+entry("turn")+"]")
	child := b.Open(api.CreateRequest{Parent: id, Usage: "research", Config: events.Config{Model: model}})
	b.RunTurn(child, "t1", harness.Text("look"))
	b.AwaitPolling("the child's usage", func() bool { return strings.Contains(usage(), "research") })
	runtest.Equal(t, "after a child's turn", usage(), "["+entry("research")+","+entry("title")+","+entry("turn")+"]")
}
