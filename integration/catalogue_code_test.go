package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code/sandbox"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func codeEntries() []entry {
	return []entry{
		{"F12", "variables, and a program that goes on in a new frame", "frame switch, another node", "the new frame's execution state is restored, the old one's is kept", testExecutionStates},
		{"P27", "a protocol without an executor, or whose executor is gone", "exec", "CodeExecutionUnavailable, RuntimeStopped; the turn stops with RuntimeError", testNoExecutor},
		{"P28", "an execution that is not dirty", "commit", "the same blob reference, nothing saved", testNotDirty},
		{"P29", "a snapshot of the execution that fails", "commit", "it succeeds with the old reference", testSnapshotFails},
		{"P30", "an extension for the default protocol", "apply", "protocol error, nothing recorded", testSessionExtension},
		{"P31", "malformed options; none at all", "decode", "error; none", testOptionsDecoded},
	}
}

// variables are the names that a frame's execution state holds.
func variables(t *testing.T, f projector.Frame) string {
	t.Helper()
	names, err := sandbox.Names(f.State)
	must(t, "names", err, nil)
	return strings.Join(names, " ")
}

// testExecutionStates kills the node once the new frame is there and nothing has run in it.
func testExecutionStates(t *testing.T) {
	asked := make(chan struct{})
	b := setupIdle(t,
		program("x = 1\ny = 2"), program(`continue_as("the rest", {"x": x + 4})`),
		hangs(asked, text("lost with its node")), program("print(x)\nz = 3"), reply(text("on")), program("print(x, z)\nprint(y)"), reply(text("over")),
		program("print(z)"), reply(text("anew")))
	kill := b.codeNode(bustest.Open(t, b.server))
	id := b.open(inCode())
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndSwitched)
	receive(b, "asked", asked)
	kill()
	b.codeNode(b.bus)
	equal(t, "end of the follow-on", b.ended(id, "t1-frame-1").End, events.EndFinished)
	frames := b.state(id).Frames
	equal(t, "frames", len(frames), 2)
	equal(t, "variables of the old frame", variables(t, frames[0]), "x y")
	equal(t, "variables of the new frame", variables(t, frames[1]), "x z")
	b.run(id, "t2", text("and"))
	outputs := b.outputs(id)
	equal(t, "output in the new frame", outputs[2], "5\n")
	equal(t, "names of the old frame", strings.Contains(outputs[3], "undefined: y"), true)

	_, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as"})
	must(t, "open", err, nil)
	b.run(id, "t3", text("anew"))
	equal(t, "names in a frame that begins empty", strings.Contains(b.outputs(id)[4], "undefined: z"), true)
	frames = b.state(id).Frames
	equal(t, "variables of the frame before", variables(t, frames[1]), "x z")
	equal(t, "variables of the empty frame", variables(t, frames[2]), "")
}

// coder is the driver of a protocol in which every reply but "done" is code.
type coder struct{}

func (coder) Preamble(plugin.PreambleInput) plugin.Preamble {
	return plugin.Preamble{HideTools: true, Read: func(r plugin.Response) plugin.Reading {
		if r.Parts[0].Text == "done" {
			return plugin.Reading{Parts: r.Parts}
		}
		args, _ := json.Marshal(map[string]string{"code": r.Parts[0].Text})
		return plugin.Reading{Parts: []events.Part{call("c", plugin.ToolCode, string(args))}}
	}}
}

// runner is an executor: "set x" makes its state of x, everything else shows how it begins.
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
		return nil, errRefusal
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

// codes is a protocol of that driver in the standard one's place, with an executor or without.
func codes(executor plugin.CodeExecutor) plugin.Factory {
	return declares(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(protocol{})
		r.Driver(coder{})
		if executor != nil {
			r.CodeExecutor(executor)
		}
	})
}

func testNoExecutor(t *testing.T) {
	working := false
	for code, executor := range map[string]plugin.CodeExecutor{
		"code_execution_unavailable": nil, "code_execution_runtime_stopped": &runner{broken: &working},
	} {
		b := setupIdle(t, reply(text("crash")), reply(text("done")))
		b.node(codes(executor))
		id := b.open(api.CreateRequest{})
		r := b.run(id, "t1", text("go"))
		equal(t, "end", r.End, events.EndRuntimeError)
		equal(t, "code", r.Issue.Code, code)
		equal(t, "outcome", b.outcome(id, "t1").Reason, events.EndRuntimeError)
		result := find[*events.ToolReturned](b, id)[0].Results[0]
		equal(t, "outcome of the call", result.Outcome, events.OutcomeFailure)
		equal(t, "code of the call", result.Code, code)
		equal(t, "next turn", b.run(id, "t2", text("again")).End, events.EndFinished)
		verified(t, b.bus, id)
	}
}

func testNotDirty(t *testing.T) {
	working := false
	b := setupIdle(t, reply(text("set a")), reply(text("done")), reply(text("look")), reply(text("done")))
	_, kill := b.nodeOn(bustest.Open(t, b.server), codes(&runner{broken: &working}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	kill()
	b.node(codes(&runner{broken: &working}))
	want := blobOf(stateOf("a"))
	equal(t, "reference", b.state(id).Frame().Blob, want)
	b.run(id, "t2", text("again"))
	equalLists(t, "output", b.outputs(id), []string{"set", "it begins with a"})
	equal(t, "reference after it", b.state(id).Frame().Blob, want)
	equal(t, "saved states", len(find[*events.FrameStateSaved](b, id)), 1)
}

func testSnapshotFails(t *testing.T) {
	broken := false
	b := setupIdle(t, reply(text("set a")), reply(text("set b")), reply(text("look")), reply(text("done")))
	breaks := func(next step) step { return first(func() { broken = true }, next) }
	b.model.script[1] = breaks(b.model.script[1])
	b.node(codes(&runner{broken: &broken}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equalLists(t, "output", b.outputs(id), []string{"set", "set", "it begins with a"})
	equal(t, "reference", b.state(id).Frame().Blob, blobOf(stateOf("a")))
	equal(t, "saved states", len(find[*events.FrameStateSaved](b, id)), 1)
	verified(t, b.bus, id)
}

func testSessionExtension(t *testing.T) {
	b := setupIdle(t)
	b.node()
	id := b.open(api.CreateRequest{})
	before := b.last(id)
	must(t, "apply", b.ApplyExtension(b.ctx, id, events.Extension{Type: "x", Body: []byte(`{}`)}), api.ErrProtocol)
	equal(t, "commits", b.last(id), before)
	must(t, "apply to nobody", b.ApplyExtension(b.ctx, "nobody", events.Extension{Type: "x"}), events.ErrNoSession)
}

func testOptionsDecoded(t *testing.T) {
	type options struct {
		N int `json:"n"`
	}
	o, err := plugin.OptionsOf("p", options{N: 1})
	must(t, "options", err, nil)
	must(t, "insert", o.Insert("p", options{N: 2}), nil)
	got, found, err := plugin.DecodeOptions[options](o, "p")
	must(t, "decode", err, nil)
	equal(t, "found", found, true)
	equal(t, "options", got.N, 2)
	_, found, err = plugin.DecodeOptions[options](o, "absent")
	must(t, "absent", err, nil)
	equal(t, "found an absent one", found, false)
	_, _, err = plugin.DecodeOptions[options](plugin.Options{"p": `{"n":`}, "p")
	equal(t, "malformed", err != nil, true)
	_, _, err = plugin.DecodeOptions[options](plugin.Options{"p": `{"n":"one"}`}, "p")
	equal(t, "of another type", err != nil, true)

	b := setupIdle(t, reply(text("on")))
	b.codeNode(b.bus)
	req := inCode()
	equal(t, "turn without options", b.run(b.open(req), "t1", text("go")).End, events.EndFinished)
	plain := b.open(inCode())
	for _, options := range []string{`{"termination":`, `{"termination":"whenever"}`, `{"unknown":1}`} {
		req.Options = map[string]string{"code": options}
		_, err := b.Submit(b.ctx, b.open(req), api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
		equal(t, "a session with "+options+": "+errText(err), strings.Contains(errText(err), "options"), true)
		_, err = b.Submit(b.ctx, plain, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}, Options: []byte(options)}})
		must(t, "a turn with "+options, err, api.ErrProtocol)
	}
}
