package external

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	gates "github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// fileArgs are the arguments of the tool "own": a path, and the paths that the hooks replace it with, in their order.
type fileArgs struct {
	Path string   `json:"path"`
	To   []string `json:"to,omitempty"`
}

func (a fileArgs) json() json.RawMessage {
	data, _ := json.Marshal(a) // strings only
	return data
}

// gateCases lists every kind of rule, replaced by nothing, by every kind, and by every kind twice.
func gateCases() (list []fileArgs) {
	kinds := []string{"free", "ask", "no"}
	for _, path := range kinds {
		list = append(list, fileArgs{Path: path})
		for _, one := range kinds {
			list = append(list, fileArgs{path, []string{one}})
			for _, two := range kinds {
				list = append(list, fileArgs{path, []string{one, two}})
			}
		}
	}
	return list
}

// replacer is a plugin that replaces the path of a call by the n-th path of its arguments.
func replacer(id string, n int) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			var args fileArgs
			if err := json.Unmarshal(in.Args, &args); err != nil || n >= len(args.To) {
				return nil, err
			}
			args.Path = args.To[n]
			return []plugin.Directive{plugin.ReplaceArgs(args.json())}, nil
		})
	})
}

// callAsTold answers with a call of the tool "own" whose arguments are the user's text, and then with a text.
func callAsTold(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Parts[0].Kind == events.PartToolResult {
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	return harness.Reply(harness.Call("k", "own", last.Text()))(ctx, req)
}

// TestGateJudgesWhatRuns replaces the arguments of calls in each way, by plugins in the node and by programs of their
// own, before and after the gate in the stack. The gate judges the arguments that would run, the approval shows
// them, and they run.
func TestGateJudgesWhatRuns(t *testing.T) {
	t.Parallel()
	first, second := replacer("first", 0), replacer("second", 1)
	g := gates.Factory(gates.Config{Options: gates.Options{Allow: []string{"own:free"}, Ask: []string{"own:ask"}, Deny: []string{"own:no"}}})
	for name, stack := range map[string]struct {
		own      []plugin.Factory
		programs []plugin.Factory
		after    []plugin.Factory
	}{
		"gate_before":                {own: []plugin.Factory{g, first, second}},
		"gate_between":               {own: []plugin.Factory{first, g, second}},
		"gate_after":                 {own: []plugin.Factory{first, second, g}},
		"gate_before_programs":       {own: []plugin.Factory{g}, programs: []plugin.Factory{first, second}},
		"gate_after_programs":        {programs: []plugin.Factory{first, second}, after: []plugin.Factory{g}},
		"gate_between_program_first": {programs: []plugin.Factory{first}, after: []plugin.Factory{g, second}},
		"gate_between_program_last":  {own: []plugin.Factory{first, g}, programs: []plugin.Factory{second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, slices.Repeat([]harness.Step{callAsTold}, 2*2*len(gateCases()))...)
			s.changesOthers, s.after = true, stack.after
			var ran sync.Map // paths, by session
			tool := harness.PluginOf("own", func(r *plugin.Registrar) {
				plugin.AddTool(r, plugin.Tool{Name: "own"}, func(_ context.Context, call plugin.Call, in fileArgs) (string, error) {
					ran.Store(call.Session, in.Path)
					return "ran " + in.Path, nil
				})
			})
			var names []string
			for _, f := range stack.programs {
				names = append(names, f.ID())
			}
			s.nodeOf(names, append(slices.Clone(stack.own), tool)...)
			for _, f := range stack.programs {
				s.instance(remote.Config{Plugin: f})
			}
			for _, args := range gateCases() {
				for _, granted := range []bool{true, false} {
					s.checkJudged(&ran, args, granted)
				}
			}
		})
	}
}

// checkJudged runs a turn with a call, answers its approval, and checks what was judged, shown and run.
func (s *setting) checkJudged(ran *sync.Map, args fileArgs, granted bool) {
	s.T.Helper()
	what := fmt.Sprintf("%s to %v, granted %t", args.Path, args.To, granted)
	final := append([]string{args.Path}, args.To...)[len(args.To)]
	id := s.Open(api.CreateRequest{})
	s.StartTurn(id, "t1", harness.Text(string(args.json())))
	state := s.AwaitState(id, "an approval request or the end", func(now *projector.State) bool {
		return harness.HasAsk(now) || now.Turn() == nil && now.Turns > 0
	})
	runtest.Equal(s.T, what+": asked", harness.HasAsk(state), final == "ask")
	if harness.HasAsk(state) {
		asked := state.Turn().Asks[0]
		runtest.Equal(s.T, what+": question", asked.Question, "Let own run? ask")
		runtest.Equal(s.T, what+": shown arguments", string(asked.Args), string(fileArgs{final, args.To}.json()))
		runtest.WantError(s.T, what+": answer", s.Approve(s.Ctx, id, events.ToolApprovalGiven{Effect: asked.Effect, Granted: granted}), nil)
	}
	s.AwaitTurn(id, "t1")
	want := map[string]string{"free": "ran free", "ask": "ran ask", "no": "[failed] own is not allowed here no"}[final]
	if final == "ask" && !granted {
		want = "[failed] the call was not approved"
	}
	runtest.Equal(s.T, what+": result", s.CallResult(id, "k"), want)
	path, _ := ran.Load(id)
	wantPath, _ := strings.CutPrefix(want, "ran ")
	if wantPath == want {
		runtest.Equal(s.T, what+": ran", path == nil, true)
		return
	}
	runtest.DeepEqual(s.T, what+": ran", path, any(wantPath))
}
