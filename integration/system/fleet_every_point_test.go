package system

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

type counting struct {
	plugin.State[map[string]int]
}

func (c *counting) count(what string) {
	c.Update(func(m *map[string]int) {
		if *m == nil {
			*m = make(map[string]int)
		}
		(*m)[what]++
	})
}

func (c *counting) Register(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
		c.count("before")
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "before"))}, nil
	})
	r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
		return []events.Contribution{{Slot: events.SlotIntro, Content: "be good"}}, nil
	})
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
		c.count("gate")
		return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"a":2}`)), plugin.Ask("really?")}, nil
	})
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
		c.count("after")
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "queued"))}, nil
	})
	r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
		c.count("checkpoint")
		return nil, nil
	})
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
		c.count("end")
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "bye"))}, nil
	})
	plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct {
		A int `json:"a"`
	},
	) (int, error) {
		return in.A + 40, nil
	})
	return nil
}

// TestHooksRunAtEveryPoint has a plugin at every point of a turn with a call that waits for an approval.
func TestHooksRunAtEveryPoint(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "add", `{"a":1}`)), harness.Reply(harness.Text("done")))
	b.StartNode(plugin.New("counting", func(plugin.BuildContext) (plugin.Plugin, error) { return &counting{}, nil }))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hi"))
	state := b.AwaitState(id, "question", harness.HasAsk)
	runtest.NoError(t, b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: state.Turn().Asks[0].Effect, Granted: true}))
	got := b.AwaitTurn(id, "t1")
	if got.End != events.EndFinished {
		t.Errorf("end: %+v", got)
	}
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hi", "system before", `assistant c1:add{"a":1}`, "user c1=42", "user queued", "assistant done", "system bye"})
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"system be good", "user hi", "system before", `assistant c1:add{"a":1}`, "user c1=42", "user queued"})
	s := b.StateOf(id)
	runtest.Equal(t, "state", string(s.Plugin("counting").State), `{"after":1,"before":1,"checkpoint":2,"end":1,"gate":1}`)
}

// hookMethods are the methods of the registrar that add a function to a point, where the function is the only one of
// its arguments that is no number.
func hookMethods() (list []reflect.Method) {
	for m := range reflect.TypeFor[*plugin.Registrar]().Methods() {
		functions, others := 0, 0
		for i := 1; i < m.Type.NumIn(); i++ {
			switch m.Type.In(i).Kind() {
			case reflect.Func:
				functions++
			case reflect.Int:
			default:
				others++
			}
		}
		if functions == 1 && others == 0 {
			list = append(list, m)
		}
	}
	return list
}

// unchanged is the result of a function that changes nothing: of each type it returns the argument, or puts the
// arguments into the fields of their types.
func unchanged(out reflect.Type, args []reflect.Value) reflect.Value {
	v := reflect.New(out).Elem()
	for _, a := range args {
		if a.Type() == out {
			v = a
		}
	}
	if v.Kind() == reflect.Struct && v.IsZero() {
		for i := range v.NumField() {
			v.Field(i).Set(unchanged(v.Field(i).Type(), args))
		}
	}
	return v
}

// TestSmokeEveryHookRuns adds a function to every point of the registrar. A turn with a tool call, a change of the
// configuration and a compaction run them all.
func TestSmokeEveryHookRuns(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "add", `{}`)), harness.Reply(harness.Text("done")))
	var ran sync.Map
	n := b.StartNode(harness.PluginOf("every", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{}) (int, error) { return 3, nil })
		for _, m := range hookMethods() {
			args := []reflect.Value{reflect.ValueOf(r)}
			for i := 1; i < m.Type.NumIn(); i++ {
				in := m.Type.In(i)
				if in.Kind() != reflect.Func {
					args = append(args, reflect.Zero(in))
					continue
				}
				args = append(args, reflect.MakeFunc(in, func(with []reflect.Value) (out []reflect.Value) {
					ran.Store(m.Name, true)
					for o := range in.Outs() {
						out = append(out, unchanged(o, with))
					}
					return out
				}))
			}
			m.Func.Call(args)
		}
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hi"))
	runtest.WantError(t, "configure", n.Host().Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m2"; return c }}), nil)
	_, err := n.Host().Compact(b.Ctx, id)
	runtest.WantError(t, "compact", err, nil)
	for _, m := range hookMethods() {
		if _, ok := ran.Load(m.Name); !ok {
			t.Errorf("%s: got no call of its hook", m.Name)
		}
	}
	if len(hookMethods()) < 16 {
		t.Errorf("got %d points, want those of the registrar", len(hookMethods()))
	}
}
