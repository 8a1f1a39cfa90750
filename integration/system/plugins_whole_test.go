package system

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
)

// bodyReads records where a plugin read every body whole, and fails where it did not.
type bodyReads struct {
	t    *testing.T
	size int // of each body

	mu     sync.Mutex
	points map[string]bool
}

// body is a body of the conversation, named by a letter.
func (w *bodyReads) body(letter string) string { return strings.Repeat(letter, w.size) }

func (w *bodyReads) args() string { return `{"x":"` + w.body("a") + `"}` }

// parts checks that parts are one body.
func (w *bodyReads) parts(at string, got []events.Part, letter string) {
	w.t.Helper()
	if len(got) != 1 || !got[0].Blob.IsZero() {
		w.t.Errorf("%s: got %d parts, %+.40v, want one without a reference", at, len(got), got)
		return
	}
	w.text(at, got[0].Text, w.body(letter))
}

func (w *bodyReads) text(at, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: got %d bytes, %.20q, want %d, %.20q", at, len(got), got, len(want), want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.points[at] = true
}

// view checks the conversation before the turn, which has a message, a plugin's node, a call and a result.
func (w *bodyReads) view(at string, v projector.ReadView) {
	w.t.Helper()
	if len(v.Messages) < 3 || len(v.Nodes) < 4 {
		w.t.Errorf("%s: got %d messages and %d nodes", at, len(v.Messages), len(v.Nodes))
		return
	}
	w.parts(at+", message", v.Messages[0].Parts, "m")
	w.parts(at+", message of a node", v.Nodes[0].Message.Parts, "m")
	w.text(at+", plugin's node", string(v.Nodes[1].Body), `"`+w.body("n")+`"`)
	w.text(at+", call", string(v.Messages[1].Parts[0].Args), w.args())
	w.parts(at+", result", v.Messages[2].Parts, "r")
	for _, c := range v.Chronology() {
		if c.Kind == projector.EntryToolCall && c.Call.ID == "old" {
			w.text(at+", call in order", string(c.Call.Args), w.args())
			w.text(at+", its result", c.Call.Text, w.body("r"))
		}
	}
}

func (w *bodyReads) state(at string, s *projector.State, err error) {
	w.t.Helper()
	runtest.WantError(w.t, at, err, nil)
	v, err := s.View()
	runtest.WantError(w.t, "view of "+at, err, nil)
	w.view(at, v)
}

// snapshots checks the snapshots that a host returns.
func (w *bodyReads) snapshots(ctx context.Context, at string, host plugin.SnapshotHost, id events.SessionID) {
	w.t.Helper()
	s, err := host.SnapshotCurrent(ctx)
	w.state(at+", current snapshot", s, err)
	s, err = host.SnapshotSession(ctx, id)
	w.state(at+", snapshot of the session", s, err)
}

// hooks registers a hook at every point whose input has messages, results or arguments.
func (w *bodyReads) hooks(r *plugin.Registrar) {
	r.TransformContext(0, func(ctx context.Context, in plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
		w.parts("transform, input", in.Input.Parts, "i")
		w.parts("transform, prepared", now.Messages[0].Parts, "m")
		w.state("transform, state", in.State, nil)
		w.snapshots(ctx, "transform", in.Host, in.Session)
		return now, nil
	})
	r.BeforeTurn(func(ctx context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
		w.parts("before turn, input", in.Input.Parts, "i")
		w.view("before turn", in.View)
		w.snapshots(ctx, "before turn", in.Host, in.Session)
		return nil, nil
	})
	r.Prompt(func(ctx context.Context, in plugin.PromptContext) ([]events.Contribution, error) {
		w.parts("prompt, input", in.Input.Parts, "i")
		w.view("prompt", in.View)
		w.snapshots(ctx, "prompt", in.Host, in.Session)
		return nil, nil
	})
	r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
		if in.Tool == plugin.ToolCode {
			return nil, nil
		}
		w.text("before "+in.Tool+", arguments", string(in.Args), w.args())
		w.snapshots(ctx, "before tool", in.Host, in.Call.Session)
		return nil, nil
	})
	r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
		if in.Tool == plugin.ToolCode {
			return nil, nil
		}
		w.text("after "+in.Tool+", arguments", string(in.Args), w.args())
		w.text("after "+in.Tool+", result", in.Result.Text, w.body("r"))
		return nil, nil
	})
	r.ProjectToolResult(func(_ context.Context, in plugin.ToolResultContext) (plugin.View, error) {
		if in.Tool == plugin.ToolCode {
			return in.View(), nil
		}
		w.text("projector, arguments", string(in.Args), w.args())
		w.text("projector, result", in.Result.Text, w.body("r"))
		return in.View(), nil
	})
	r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
		w.view("checkpoint", in.View)
		return nil, nil
	})
	r.AfterTurn(func(_ context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
		w.view("after turn", in.View)
		return nil, nil
	})
	r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
		if e.Turn != "" && e.Kind == plugin.TurnFinalized {
			w.state("lifecycle, state", e.State, nil)
		}
		return nil
	})
	r.Response(func(_ context.Context, _ events.SessionID, now plugin.Response) (plugin.Response, []json.RawMessage, error) {
		if len(now.Parts) == 1 && now.Parts[0].Kind == events.PartText {
			w.parts("reply", now.Parts, "z")
		}
		return now, nil, nil
	})
	r.Compact(0, func(ctx context.Context, in plugin.TransformContext) (plugin.Compaction, error) {
		w.state("compactor, state", in.State, nil)
		w.snapshots(ctx, "compactor", in.Host, in.Session)
		return plugin.Compaction{}, nil
	})
	w.tools(r)
}

func (w *bodyReads) tools(r *plugin.Registrar) {
	type in struct {
		X string `json:"x"`
	}
	plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, in in) (string, error) {
		w.text("tool, arguments", in.X, w.body("a"))
		w.snapshots(ctx, "tool", c.Host, c.Session)
		got := c.Nested(ctx, 0, []plugin.NestedCall{{Tool: "inner", Args: json.RawMessage(w.args())}})[0]
		w.text("nested call, result", got.Text, w.body("r"))
		return w.body("r"), got.Err
	})
	plugin.AddTool(r, plugin.Tool{Name: "inner", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in in) (string, error) {
		w.text("nested call, arguments", in.X, w.body("a"))
		return w.body("r"), nil
	})
	plugin.AddTool(r, plugin.Tool{Name: "later", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ in) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	r.Action(plugin.ActionDef{Name: "act"}, func(ctx context.Context, c plugin.ActionContext, _ json.RawMessage) (plugin.Result, error) {
		w.snapshots(ctx, "action", c.Host, c.Session)
		return plugin.Result{}, nil
	})
}

// wholePoints are all points that a turn and the requests during it pass.
func wholePoints() []string {
	view := []string{", message", ", message of a node", ", plugin's node", ", call", ", result", ", call in order", ", its result"}
	var list []string
	for _, at := range []string{"before turn", "prompt", "checkpoint", "after turn", "lifecycle, state", "transform, state", "compactor, state", "model call", "code"} {
		for _, what := range view {
			list = append(list, at+what)
		}
	}
	for _, at := range []string{"transform", "before turn", "prompt", "before tool", "tool", "action", "compactor", "model call", "code"} {
		for _, what := range view {
			list = append(list, at+", current snapshot"+what, at+", snapshot of the session"+what)
		}
	}
	for _, tool := range []string{"look", "inner", "later"} {
		list = append(list, "before "+tool+", arguments", "after "+tool+", arguments", "after "+tool+", result")
	}
	return append(list, "transform, input", "transform, prepared", "before turn, input", "prompt, input", "projector, arguments", "projector, result", "reply",
		"tool, arguments", "nested call, arguments", "nested call, result", "validated input", "model call, prompt")
}

// TestPluginsSeeWholeBodies has a conversation whose every body is small, or large enough for a blob, and a plugin
// at every point that reads messages, arguments or results: all points read the same.
func TestPluginsSeeWholeBodies(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 200_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := &bodyReads{t: t, size: size, points: make(map[string]bool)}
			w.live()
			want := wholePoints()
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(w.points)); !slices.Equal(got, want) {
				missing := slices.DeleteFunc(slices.Clone(want), func(at string) bool { return w.points[at] })
				t.Errorf("seen: got %d places, want %d; missing: %v", len(got), len(want), missing)
			}
		})
	}
}

// live has a session with such a conversation, a turn with calls of every kind, an action, and a compaction.
func (w *bodyReads) live() {
	b := harness.StartIdle(w.t,
		harness.Reply(harness.Call("k1", "look", w.args()), harness.Call("k2", "later", w.args())), harness.Reply(harness.Call("k3", plugin.ToolCode, `{"language":"go","code":"x"}`)), harness.Reply(harness.Text(w.body("z"))),
	)
	b.StartNode(harness.PluginOf("whole", w.hooks), harness.PluginOf("standard", func(r *plugin.Registrar) {
		r.Protocol(harness.Protocol{
			Validate: func(_ context.Context, in events.TurnInput) error {
				w.parts("validated input", in.Parts, "i")
				return nil
			},
			Before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
				w.view("model call", in.View)
				w.parts("model call, prompt", in.Prompt.Messages[0].Parts, "m")
				w.snapshots(b.Ctx, "model call", in.Host, in.Session)
				return nil, nil //nolint:nilnil // no switch, no error
			},
		})
		r.Driver(reading{})
		r.CodeExecutor(inspectingExecutor{w})
	}))
	id := b.Open(api.CreateRequest{})
	message := func(role events.Role, part events.Part) *events.Message {
		return &events.Message{Role: role, Parts: []events.Part{part}}
	}
	for _, n := range []api.AppendNode{ // one commit each: some may be larger than others
		{Message: message(events.RoleUser, harness.Text(w.body("m")))},
		{Kind: events.NodePlugin, ID: "p1", Type: "note", Body: []byte(`"` + w.body("n") + `"`)},
		{Message: message(events.RoleAssistant, harness.Call("old", "look", w.args()))},
		{Message: message(events.RoleUser, events.Part{Kind: events.PartToolResult, Call: "old", Tool: "look", Text: w.body("r")})},
	} {
		_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{n}})
		runtest.WantError(w.t, "append", err, nil)
	}
	input := events.TurnInput{Parts: []events.Part{harness.Text(w.body("i"))}, Plugins: map[string]string{"whole": `{"a":1}`}}
	_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: input})
	runtest.WantError(w.t, "submit", err, nil)
	b.AwaitState(id, "pending call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 2 && s.Turn().Calls[1].Pended
	})
	runtest.WantError(w.t, "resolve", b.ResolveTool(b.Ctx, id, "t1/0/1", events.ToolResult{Text: w.body("r")}), nil)
	runtest.Equal(w.t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	_, err = b.InvokeAction(b.Ctx, id, "act", nil)
	runtest.WantError(w.t, "action", err, nil)
	_, err = b.Compact(b.Ctx, id)
	runtest.WantError(w.t, "compact", err, nil)
}

// inspectingExecutor is an executor that checks its input.
type inspectingExecutor struct{ w *bodyReads }

func (e inspectingExecutor) Execute(ctx context.Context, in plugin.ExecContext, _ plugin.ExecRequest) (plugin.ExecResponse, error) {
	v := projector.ReadView{}
	seen := make(map[events.NodeID]bool)
	for _, c := range in.Chronology {
		if c.Kind == projector.EntryMessage {
			v.Messages = append(v.Messages, c.Message)
		}
		if !seen[c.Node.ID] {
			seen[c.Node.ID] = true
			v.Nodes = append(v.Nodes, c.Node)
		}
	}
	e.w.view("code", v)
	e.w.snapshots(ctx, "code", in.Host, in.Session)
	runtest.Equal(e.w.t, "frame of the code", in.Frame, projector.InitialFrame(in.Session))
	runtest.Equal(e.w.t, "plugins' input of the code", in.Plugins["whole"], `{"a":1}`)
	return plugin.ExecResponse{Output: "ran"}, nil
}

func (inspectingExecutor) Dirty() bool { return false }

func (inspectingExecutor) Snapshot(context.Context, plugin.ProtocolSession) ([]byte, error) {
	return nil, nil
}

func (inspectingExecutor) Restore(context.Context, plugin.ProtocolSession, []byte) error { return nil }
