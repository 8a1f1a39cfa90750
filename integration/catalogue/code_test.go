package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func codeEntries() []entry {
	return []entry{
		{"F12", "each frame has its own execution state", "variables, and a program that goes on in a new frame", "frame switch, another node", "the new frame's execution state is restored, the old one's is kept", testExecutionStates},
		{"P27", "code without an executor is unavailable", "a protocol without an executor, or whose executor is gone", "exec", "CodeExecutionUnavailable, RuntimeStopped; the turn stops with RuntimeError", testNoExecutor},
		{"P28", "clean execution is not saved again", "an execution that is not dirty", "commit", "the same blob reference, nothing saved", testNotDirty},
		{"P29", "failed execution snapshot keeps the old one", "a snapshot of the execution that fails", "commit", "it succeeds with the old reference", testSnapshotFails},
		{"P30", "default protocol refuses extensions", "an extension for the default protocol", "apply", "protocol error, nothing recorded", testSessionExtension},
		{"P31", "malformed protocol options are an error", "malformed options; none at all", "decode", "error; none", testOptionsDecoded},
	}
}

// variables are the names that a frame's execution state holds. A frame that no program changed has no state.
func variables(t *testing.T, f projector.Frame) string {
	t.Helper()
	if len(f.State) == 0 {
		return ""
	}
	var state struct {
		Vars map[string]json.RawMessage `json:"vars"`
	}
	runtest.WantError(t, "state", json.Unmarshal(f.State, &state), nil)
	return strings.Join(slices.Sorted(maps.Keys(state.Vars)), " ")
}

// testExecutionStates kills the node when the new frame is open and no code has run in it.
func testExecutionStates(t *testing.T) {
	requested := make(chan struct{})
	b := harness.StartIdle(t,
		harness.Program("x = 1\ny = 2"), harness.Program(`continue_as("the rest", {"x": x + 4})`),
		harness.Hang(requested, harness.Text("lost with its node")), harness.Program("print(x)\nz = 3"), harness.Reply(harness.Text("on")), harness.Program("print(x, z)\nprint(y)"), harness.Reply(harness.Text("over")),
		harness.Program("print(z)"), harness.Reply(harness.Text("anew")))
	kill := b.StartCodeNode(bustest.Open(t, b.Server))
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndSwitched)
	harness.Receive(b, "the request", requested)
	kill()
	b.StartCodeNode(b.Bus)
	runtest.Equal(t, "end of the follow-on", b.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
	frames := b.StateOf(id).Frames
	runtest.Equal(t, "frames", len(frames), 2)
	runtest.Equal(t, "variables of the old frame", variables(t, frames[0]), "x y")
	runtest.Equal(t, "variables of the new frame", variables(t, frames[1]), "x z")
	b.RunTurn(id, "t2", harness.Text("and"))
	outputs := b.Outputs(id)
	runtest.Equal(t, "output in the new frame", outputs[2], "5\n")
	runtest.Equal(t, "names of the old frame", strings.Contains(outputs[3], "undefined: y"), true)

	_, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as"})
	runtest.WantError(t, "open", err, nil)
	b.RunTurn(id, "t3", harness.Text("anew"))
	runtest.Equal(t, "names in a frame that begins empty", strings.Contains(b.Outputs(id)[4], "undefined: z"), true)
	frames = b.StateOf(id).Frames
	runtest.Equal(t, "variables of the frame before", variables(t, frames[1]), "x z")
	runtest.Equal(t, "variables of the empty frame", variables(t, frames[2]), "")
}

// coder is the driver of a protocol in which every reply but "done" is code.
type coder struct{}

func (coder) Preamble(plugin.PreambleInput) plugin.Preamble {
	return plugin.Preamble{HideTools: true, Read: func(r plugin.Response) plugin.Reading {
		if r.Parts[0].Text == "done" {
			return plugin.Reading{Parts: r.Parts}
		}
		args, _ := json.Marshal(map[string]string{"code": r.Parts[0].Text})
		return plugin.Reading{Parts: []events.Part{harness.Call("c", plugin.ToolCode, string(args))}}
	}}
}

// runner is an executor: "set x" makes its state of x, all other code shows how the state begins.
type runner struct {
	state  []byte
	dirty  bool
	broken *bool // snapshots fail
}

func (r *runner) Execute(_ context.Context, _ plugin.ExecContext, req plugin.ExecRequest) (plugin.ExecResponse, error) {
	if req.Code == "crash" {
		return plugin.ExecResponse{}, api.ErrRuntimeStopped
	}
	if to, ok := strings.CutPrefix(req.Code, "set "); ok {
		r.state, r.dirty = stateOf(to), true
		return plugin.ExecResponse{Output: "set"}, nil
	}
	return plugin.ExecResponse{Output: "it begins with " + string(r.state[:1])}, nil
}

func (r *runner) Dirty() bool { return r.dirty }

func (r *runner) Snapshot(context.Context, plugin.ProtocolSession) ([]byte, error) {
	if *r.broken {
		return nil, harness.ErrPlugin
	}
	r.dirty = false
	return r.state, nil
}

func (r *runner) Restore(_ context.Context, _ plugin.ProtocolSession, state []byte) error {
	r.state, r.dirty = state, false
	return nil
}

// stateOf is an execution state that is too large for an event.
func stateOf(letter string) []byte { return []byte(strings.Repeat(letter, 100<<10)) }

// blobOf is the reference of a body.
func blobOf(body []byte) events.BlobRef {
	sum := sha256.Sum256(body)
	return events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

// codes is a protocol with that driver in the place of the standard one, with an executor or without.
func codes(executor plugin.CodeExecutor) plugin.Factory {
	return harness.PluginOf(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(harness.Protocol{})
		r.Driver(coder{})
		if executor != nil {
			r.CodeExecutor(executor)
		}
	})
}

func testNoExecutor(t *testing.T) {
	working := false
	for code, executor := range map[string]plugin.CodeExecutor{
		"code_unavailable": nil, "runtime_stopped": &runner{broken: &working},
	} {
		b := harness.StartIdle(t, harness.Reply(harness.Text("crash")), harness.Reply(harness.Text("done")))
		b.StartNode(codes(executor))
		id := b.Open(api.CreateRequest{})
		r := b.RunTurn(id, "t1", harness.Text("go"))
		runtest.Equal(t, "end", r.End, events.EndRuntimeError)
		runtest.Equal(t, "code", r.Issue.Code, code)
		runtest.Equal(t, "outcome", b.Outcome(id, "t1").Reason, events.EndRuntimeError)
		result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
		runtest.Equal(t, "outcome of the call", result.Outcome, events.OutcomeFailure)
		runtest.Equal(t, "code of the call", result.Code, code)
		runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("again")).End, events.EndFinished)
		harness.VerifyHistory(t, b.Bus, id)
	}
}

func testNotDirty(t *testing.T) {
	working := false
	b := harness.StartIdle(t, harness.Reply(harness.Text("set a")), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("look")), harness.Reply(harness.Text("done")))
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), codes(&runner{broken: &working}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	kill()
	b.StartNode(codes(&runner{broken: &working}))
	want := blobOf(stateOf("a"))
	runtest.Equal(t, "reference", b.StateOf(id).Frame().Blob, want)
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.EqualLists(t, "output", b.Outputs(id), []string{"set", "it begins with a"})
	runtest.Equal(t, "reference after it", b.StateOf(id).Frame().Blob, want)
	runtest.Equal(t, "saved states", len(harness.Find[*events.FrameStateSaved](b, id)), 1)
}

func testSnapshotFails(t *testing.T) {
	broken := false
	b := harness.StartIdle(t, harness.Reply(harness.Text("set a")), harness.Reply(harness.Text("set b")), harness.Reply(harness.Text("look")), harness.Reply(harness.Text("done")))
	breaks := func(next harness.Step) harness.Step { return harness.DoFirst(func() { broken = true }, next) }
	b.Model.Script[1] = breaks(b.Model.Script[1])
	b.StartNode(codes(&runner{broken: &broken}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.EqualLists(t, "output", b.Outputs(id), []string{"set", "set", "it begins with a"})
	runtest.Equal(t, "reference", b.StateOf(id).Frame().Blob, blobOf(stateOf("a")))
	runtest.Equal(t, "saved states", len(harness.Find[*events.FrameStateSaved](b, id)), 1)
	harness.VerifyHistory(t, b.Bus, id)
}

func testSessionExtension(t *testing.T) {
	b := harness.StartIdle(t)
	b.StartNode()
	id := b.Open(api.CreateRequest{})
	before := b.LastSeq(id)
	runtest.WantError(t, "apply", b.ApplyExtension(b.Ctx, id, events.Extension{Type: "x", Body: []byte(`{}`)}), api.ErrProtocol)
	runtest.Equal(t, "commits", b.LastSeq(id), before)
	runtest.WantError(t, "apply to nobody", b.ApplyExtension(b.Ctx, "nobody", events.Extension{Type: "x"}), events.ErrNoSession)
}

func testOptionsDecoded(t *testing.T) {
	type options struct {
		N int `json:"n"`
	}
	o, err := plugin.OptionsOf("p", options{N: 1})
	runtest.WantError(t, "options", err, nil)
	runtest.WantError(t, "insert", o.Insert("p", options{N: 2}), nil)
	got, found, err := plugin.DecodeOptions[options](o, "p")
	runtest.WantError(t, "decode", err, nil)
	runtest.Equal(t, "found", found, true)
	runtest.Equal(t, "options", got.N, 2)
	_, found, err = plugin.DecodeOptions[options](o, "absent")
	runtest.WantError(t, "absent", err, nil)
	runtest.Equal(t, "found an absent one", found, false)
	_, _, err = plugin.DecodeOptions[options](plugin.Options{"p": `{"n":`}, "p")
	runtest.Equal(t, "malformed", err != nil, true)
	_, _, err = plugin.DecodeOptions[options](plugin.Options{"p": `{"n":"one"}`}, "p")
	runtest.Equal(t, "of another type", err != nil, true)

	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	b.StartCodeNode(b.Bus)
	req := harness.CodeSession()
	runtest.Equal(t, "turn without options", b.RunTurn(b.Open(req), "t1", harness.Text("go")).End, events.EndFinished)
	plain := b.Open(harness.CodeSession())
	for _, options := range []string{`{"termination":`, `{"termination":"whenever"}`, `{"unknown":1}`} {
		req.Options = map[string]string{"code": options}
		_, err := b.Submit(b.Ctx, b.Open(req), api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
		runtest.Equal(t, "a session with "+options+": "+errText(err), strings.Contains(errText(err), "options"), true)
		_, err = b.Submit(b.Ctx, plain, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}, Options: []byte(options)}})
		runtest.WantError(t, "a turn with "+options, err, api.ErrProtocol)
	}
}
