package system

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// fileArgs are a path, and the path that a hook replaces it with, if any.
type fileArgs struct {
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
}

// replacingPlugin has the tool "own", which reports its path, and a hook that replaces the path.
func replacingPlugin(ran func(path string)) plugin.Factory {
	return plugin.Func("replacing", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "own"}, func(_ context.Context, _ plugin.Call, in fileArgs) (string, error) {
			ran(in.Path)
			return "ran " + in.Path, nil
		})
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			var args fileArgs
			if err := json.Unmarshal(in.Args, &args); err != nil || in.Tool != "own" || args.To == "" {
				return nil, err
			}
			return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(fmt.Sprintf(`{"path":%q}`, args.To)))}, nil
		})
		return nil
	})
}

// TestGateJudgesInnerCalls replaces the arguments of calls that tools and programs make, at once and in the
// background. The gate judges what would run, and an approval shows it.
func TestGateJudgesInnerCalls(t *testing.T) {
	t.Parallel()
	kinds := []string{"free", "ask", "no"}
	for _, way := range []string{"nested", "call", "gather", "start"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for _, path := range kinds {
				for _, to := range append([]string{""}, kinds...) {
					checkInner(t, way, fileArgs{path, to})
				}
			}
		})
	}
}

// innerCall is a node's script and plugin for a call of "own" that is made in this way.
func innerCall(way string, args fileArgs) (harness.Step, plugin.Factory) {
	data, _ := json.Marshal(args) // strings only
	outer := plugin.Func("outer", func(r *plugin.Registrar) error {
		harness.OuterTool(r, plugin.NestedCall{Tool: "own", Args: data})
		return nil
	})
	of := fmt.Sprintf("own, path=%q, to=%q", args.Path, args.To)
	return map[string]harness.Step{
		"nested": harness.Reply(harness.Call("k", "outer", "{}")),
		"call":   harness.Program("print(attempt(" + of + "))"),
		"gather": harness.Program("print(gather([call(" + of + ")], attempt=True))"),
		"start":  harness.Program("print(attempt(wait, start(" + of + ")))"),
	}[way], outer
}

func checkInner(t *testing.T, way string, args fileArgs) {
	t.Helper()
	final := args.Path
	if args.To != "" {
		final = args.To
	}
	what := args.Path + " to " + args.To
	step, outer := innerCall(way, args)
	b := harness.StartIdle(t, step, harness.Reply(harness.Text("done")))
	ran := make(chan string, 2)
	rules := gate.Options{Allow: []string{"own:free"}, Ask: []string{"own:ask"}, Deny: []string{"own:no"}}
	b.StartNode(append(workers.Builtins()[1:], gate.Factory(gate.Config{Options: rules}), outer, replacingPlugin(func(path string) { ran <- path }))...)
	req := api.CreateRequest{}
	if way != "nested" {
		req = harness.CodeSession()
		req.Options = map[string]string{gate.ID: `{"allow":["own:free","code"],"ask":["own:ask"],"deny":["own:no"]}`}
	}
	id := b.Open(req)
	b.StartTurn(id, "t1", harness.Text("go"))
	state := b.AwaitState(id, "an approval request or the end", func(now *projector.State) bool {
		return harness.HasAsk(now) || now.Turn() == nil && now.Turns > 0
	})
	asks := final == "ask" && way != "start" // what was started cannot wait for an answer
	runtest.Equal(t, what+": asked", harness.HasAsk(state), asks)
	if harness.HasAsk(state) {
		request := state.Turn().Asks[0]
		var shown fileArgs
		runtest.WantError(t, what+": shown", json.Unmarshal(request.Args, &shown), nil)
		runtest.Equal(t, what+": shown path", request.Question+" "+shown.Path, "Let own run? ask ask")
		runtest.WantError(t, what+": answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: request.Effect, Granted: true}), nil)
	}
	b.AwaitTurn(id, "t1")
	close(ran)
	got := ""
	for path := range ran {
		got += path
	}
	want := ""
	if final == "free" || asks {
		want = final
	}
	runtest.Equal(t, what+": ran", got, want)
}

// TestCallOfMissingToolNeverRuns makes a tool available while its call waits for the approval of another one. No rule
// has judged the call, so it does not run.
func TestCallOfMissingToolNeverRuns(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "own", `{"path":"ask"}`), harness.Call("k2", "late", `{"path":"no"}`)), harness.Reply(harness.Text("done")))
	ran := make(chan string, 2)
	b.StartNode(gate.Factory(gate.Config{Options: gate.Options{Ask: []string{"own:ask"}, Deny: []string{"*:no"}}}), replacingPlugin(func(string) {}), plugin.Func("late", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "late", Level: events.AvailOff}, func(_ context.Context, _ plugin.Call, in fileArgs) (string, error) {
			ran <- in.Path
			return "ran", nil
		})
		return nil
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	request := b.AwaitState(id, "question", harness.HasAsk).Turn().Asks[0]
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"late"}, events.Overridden(events.AvailShowcased))
	runtest.WantError(t, "switch on", err, nil)
	runtest.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: request.Effect, Granted: true}), nil)
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", b.CallResult(id, "k2"), `[failed] tool "late" is not available in this session`)
	runtest.Equal(t, "runs", len(ran), 0)
}
