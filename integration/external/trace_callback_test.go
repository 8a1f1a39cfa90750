package external

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// acts is a reply that calls the tool act.
func acts(t *testing.T, call events.CallID, in acting) harness.Step {
	t.Helper()
	args, err := json.Marshal(&in)
	runtest.WantError(t, "arguments", err, nil)
	return harness.Reply(harness.Call(call, "act", string(args)))
}

// tracesOfCalls has a call write a trace event, with a context, at a node that writes traces.
func tracesOfCalls(t *testing.T, on place) {
	var mu sync.Mutex
	var list []api.TraceRecord
	s := on.start(t, acts(t, "k", acting{Do: "trace"}), acts(t, "k2", acting{Do: "request", Method: "POST", Path: wire.TracePath, Body: json.RawMessage(`{"name":"hook_skipped"}`)}), harness.Reply(harness.Text("done")))
	s.TraceTo = func(r api.TraceRecord) {
		mu.Lock()
		defer mu.Unlock()
		if r.Event.Type == api.TraceCustom {
			list = append(list, r)
		}
	}
	s.allowing(wire.TraceOperation)
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "204")
	if got := s.CallResult(id, "k2"); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, `"field":"name"`) {
		t.Errorf("an event of the node: got %.300q, want its name refused", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(list) != 1 {
		t.Fatalf("traces: got %+v, want one", list)
	}
	got := list[0]
	runtest.Equal(t, "name and payload", got.Event.Name+" "+string(got.Event.Payload), `plugin.notes.seen {"n":1}`)
	runtest.DeepEqual(t, "place", []string{string(got.Context.Session), string(got.Context.Turn), string(got.Context.Effect), got.Context.ModelCall}, []string{string(id), "t1", "t1/0/0", "m1"})
	runtest.Equal(t, "metadata", got.Context.Metadata["plugin.notes.run"], "r7")
}

// deniedTrace has a call write a trace event that the operator does not allow.
func deniedTrace(t *testing.T, on place) {
	s := on.start(t, acts(t, "k", acting{Do: "trace"}), harness.Reply(harness.Text("done")))
	s.allowing("getSession")
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "403")
}
