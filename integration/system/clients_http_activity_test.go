package system

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/builtin/toolsearch"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestActivityStream reads a turn's activities in the process and over HTTP: they are the same, except deltas,
// which are not recorded.
func TestActivityStream(t *testing.T) {
	t.Parallel()
	b, _ := startEndpoint(t, []llmtest.Reply{callReply("c1", "search_tools", `{"query":"mail"}`), llmtest.Text("no", "thing")}, toolsearch.Factory())
	id := b.Open(api.CreateRequest{})
	req := api.Ask("look")
	req.ID = "t1"
	_, list, err := b.StartTurnStream(b.Ctx, id, req)
	runtest.WantError(t, "stream", err, nil)
	var seen []api.TurnActivity
	for a, err := range api.Activities(list) {
		runtest.WantError(t, "activity", err, nil)
		seen = append(seen, a)
	}
	d := b.ServeHTTP(httpapi.Config{})
	stream := d.OpenStream("reader", "/v1/sessions/"+string(id)+"/turns/t1/stream?as=activity")
	var over []api.TurnActivity
	for _, m := range stream.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"type":"done"`) }) {
		runtest.Equal(t, "name", m.Name, "activity")
		var a api.TurnActivity
		runtest.WantError(t, "activity", json.Unmarshal([]byte(m.Data), &a), nil)
		over = append(over, a)
	}
	want := []api.ActivityType{
		"model_request_started", "model_request_completed", "usage", "tool_call_started", "tool_call_completed",
		"model_request_started", "model_request_completed", "usage", "turn_outcome", "done",
	}
	for transport, list := range map[string][]api.TurnActivity{"go": seen, "http": over} {
		var types []api.ActivityType
		correlations := make(map[api.ActivityType]string)
		for _, a := range list {
			types = append(types, a.Type)
			correlations[a.Type] = a.Correlation
		}
		types = slices.DeleteFunc(types, func(t api.ActivityType) bool { return t == api.ActivityProse || t == api.ActivityUsage })
		runtest.EqualLists(t, transport, types, slices.DeleteFunc(slices.Clone(want), func(t api.ActivityType) bool { return t == api.ActivityUsage }))
		runtest.Equal(t, transport+" call", correlations["tool_call_completed"], correlations["tool_call_started"])
	}
	d.WantProblem(400, "invalid_parameter", http.MethodGet, "/v1/sessions/"+string(id)+"/turns/t1/stream?as=prose", "")
}
