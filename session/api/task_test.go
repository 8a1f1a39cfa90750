package api_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestOwnTasks checks that each field and value is refused by which an outside program would start work on nodes,
// or act on another session.
func TestOwnTasks(t *testing.T) {
	t.Parallel()
	refused := map[string][]func(*api.TaskRequest){
		"runner":    {func(r *api.TaskRequest) { r.Runner = "monitor" }},
		"worker":    {func(r *api.TaskRequest) { r.Worker = "w1" }},
		"restart":   {func(r *api.TaskRequest) { r.Restart = events.RestartAlways }},
		"on_cancel": {func(r *api.TaskRequest) { r.OnCancel = func() {} }},
		"child":     {func(r *api.TaskRequest) { r.Child = "other" }},
		"task": {
			func(r *api.TaskRequest) { r.ID = events.TaskOf("m1") }, func(r *api.TaskRequest) { r.ID = events.TaskID(events.DerivedID("call-", "s1", "t1/0/0")) },
		},
		"args": {
			func(r *api.TaskRequest) { r.Args = []byte("{") }, func(r *api.TaskRequest) { r.Args = []byte(strings.Repeat("[", 200) + strings.Repeat("]", 200)) },
			func(r *api.TaskRequest) { r.Args = []byte(`"` + strings.Repeat("x", events.MaxTaskArgsBytes) + `"`) },
		},
	}
	for _, kind := range []events.TaskKind{events.TaskMonitor, events.TaskTool, events.TaskSubagent} {
		refused["kind"] = append(refused["kind"], func(r *api.TaskRequest) { r.Of = kind })
	}
	for field, list := range refused {
		for i, change := range list {
			r := api.TaskRequest{ID: "k1", Of: events.TaskObserver, Args: []byte(`{"a":1}`)}
			if err := r.CheckOwn(); err != nil {
				t.Fatal(err)
			}
			change(&r)
			if f, ok := errors.AsType[*events.FieldError](r.CheckOwn()); !ok || f.Field != field {
				t.Errorf("%s %d: got %v, want it refused", field, i, r.CheckOwn())
			}
		}
	}
}
