package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// statefulPlugin is a plugin with a state. It records its restores, and can be made to lose the state.
type statefulPlugin struct {
	id, version string
	revision    uint64
	fails       error
	restored    []string // every restore, as text
}

func (k *statefulPlugin) factory() plugin.Factory {
	return plugin.New(k.id, func(plugin.BuildContext) (plugin.Plugin, error) { return k, nil })
}

func (k *statefulPlugin) Register(*plugin.Registrar) error { return nil }

func (k *statefulPlugin) Version() string { return k.version }

func (k *statefulPlugin) Revision() uint64 { return k.revision }

func (k *statefulPlugin) Snapshot(w *plugin.SnapshotWriter) ([]byte, error) {
	w.Write("note", []byte("of "+k.id))
	return fmt.Appendf(nil, `{"at":%d}`, k.revision), k.fails
}

func (k *statefulPlugin) Restore(meta plugin.Meta, artifacts plugin.SnapshotReader) error {
	state := "nil"
	if meta.State != nil {
		state = string(meta.State)
	}
	k.restored = append(k.restored, fmt.Sprintf("%s %s@%d %s %q", meta.Plugin, meta.Version, meta.Revision, state, artifacts.Read("note")))
	k.revision = meta.Revision
	return k.fails
}

// stackOf builds a session's plugins: the standard protocol and these.
func stackOf(t *testing.T, factories ...plugin.Factory) *plugin.Stack {
	t.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	runtest.WantError(t, "host", err, nil)
	s, err := builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s1"}, nil)
	runtest.NoError(t, err)
	return s
}

func testRestoreMissing(t *testing.T) {
	a, b := &statefulPlugin{id: "a", version: "1", revision: 1}, &statefulPlugin{id: "b", version: "2", revision: 5}
	s := stackOf(t, a.factory(), b.factory())
	err := s.Restore([]projector.PluginState{
		{Plugin: "gone", Version: "1", Revision: 9, State: []byte(`{}`)},
		{Plugin: "a", Version: "old", Revision: 7, State: []byte(`{"x":1}`), Artifacts: []events.Artifact{{Name: "note", Data: []byte("hi")}}},
	})
	runtest.WantError(t, "restore", err, nil)
	runtest.EqualLists(t, "restores of a", a.restored, []string{`a old@7 {"x":1} "hi"`})
	runtest.EqualLists(t, "restores of b", b.restored, []string{`b 2@5 nil ""`})
	runtest.WantError(t, "restore nothing", s.Restore(nil), nil)
	runtest.EqualLists(t, "restores of a", a.restored[1:], []string{`a 1@7 nil ""`})
	a.fails = harness.ErrPlugin
	runtest.WantError(t, "a restore that fails", s.Restore(nil), plugin.ErrSnapshot)
	runtest.Equal(t, "restores after it", len(b.restored), 2)

	// Another node: the history has the state of one of two plugins.
	kept, fresh := &statefulPlugin{id: "kept", version: "1"}, &statefulPlugin{id: "fresh", version: "3", revision: 4}
	bd := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")))
	_, kill := bd.StartNodeOn(bd.Bus, kept.factory(), harness.PluginOf("moves", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			kept.revision++
			return nil, nil
		})
	}))
	id := bd.Open(api.CreateRequest{})
	bd.RunTurn(id, "t1", harness.Text("hello"))
	kill()
	runtest.Equal(t, "restores of a new session", len(kept.restored), 0)
	bd.StartNodeOn(bd.Bus, kept.factory(), fresh.factory())
	bd.RunTurn(id, "t2", harness.Text("hello"))
	runtest.EqualLists(t, "restores of what was saved", kept.restored, []string{`kept 1@1 {"at":1} "of kept"`})
	runtest.EqualLists(t, "restores of what was not", fresh.restored, []string{`fresh 3@4 nil ""`})
}

func testSnapshotCurrent(t *testing.T) {
	a, b := &statefulPlugin{id: "a", version: "1"}, &statefulPlugin{id: "b", version: "2", revision: 7}
	s := stackOf(t, a.factory(), b.factory())
	now := func() []projector.PluginState {
		t.Helper()
		list, err := s.Snapshot()
		runtest.WantError(t, "snapshot", err, nil)
		return list
	}
	saved := now()
	current := func(what string, prev []projector.PluginState, want bool) {
		t.Helper()
		runtest.Equal(t, what, s.SnapshotIsCurrent(prev), want)
	}
	current("unchanged", saved, true)
	current("none", nil, false)
	current("one plugin less", saved[1:], false)
	other := append([]projector.PluginState(nil), saved...)
	other[2].Plugin = "c"
	current("another plugin", other, false)
	a.revision++
	current("a revision moved", saved, false)
	saved = now()
	current("saved again", saved, true)
	b.version = "3"
	current("a version moved", saved, false)
	current("saved again", now(), true)
	b.fails = harness.ErrPlugin
	_, err := s.Snapshot()
	runtest.WantError(t, "a plugin that cannot be saved", err, plugin.ErrSnapshot)
	runtest.WantError(t, "its reason", err, harness.ErrPlugin)
}

// versioned is a plugin that has only a version and a revision. The first one has the protocol.
func versioned(id, version string, revision uint64) plugin.Factory {
	k := &statefulPlugin{id: id, version: version, revision: revision}
	return plugin.New(id, func(plugin.BuildContext) (plugin.Plugin, error) { return k, nil })
}

// silent is a protocol without anything else in the stack.
type silent struct{ *statefulPlugin }

func (silent) Register(r *plugin.Registrar) error {
	r.Protocol(harness.Protocol{})
	r.Driver(harness.Protocol{})
	return nil
}

// testFingerprint expects fixed digests: clients may store a fingerprint, so that its algorithm must not change.
func testFingerprint(t *testing.T) {
	a := silent{&statefulPlugin{id: "a", version: "1"}}
	first := plugin.New("a", func(plugin.BuildContext) (plugin.Plugin, error) { return a, nil })
	of := func(factories ...plugin.Factory) uint64 {
		t.Helper()
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: factories})
		runtest.WantError(t, "host", err, nil)
		s, err := builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s1"}, nil)
		runtest.NoError(t, err)
		return s.Fingerprint()
	}
	runtest.Equal(t, "no plugins", new(plugin.Stack).Fingerprint(), 1449310910991872227)
	runtest.Equal(t, "a", of(first), 5704449632108811846)
	runtest.Equal(t, "a, b", of(first, versioned("b", "2", 7)), 17452572604983570468)
	runtest.Equal(t, "b, a", of(versioned("b", "2", 7), first), 17877638098501781793)
	a.revision++
	if got := of(first); got == 5704449632108811846 {
		t.Errorf("after a change: got %d, want another", got)
	}
}

// actions is a plugin with an action of each kind. Each returns the session that it received.
func actions() plugin.Factory {
	return harness.PluginOf("actions", func(r *plugin.Registrar) {
		for _, param := range []plugin.SessionParam{plugin.SessionRequired, plugin.SessionOptional, plugin.SessionForbidden} {
			r.Action(plugin.ActionDef{Name: string(param), Session: param}, func(_ context.Context, in plugin.ActionContext, _ json.RawMessage) (plugin.Result, error) {
				return plugin.Result{Text: "of " + string(in.Session)}, nil
			})
		}
	})
}

func testActionSession(t *testing.T) {
	s := stackOf(t, actions())
	defer s.Close()
	for _, c := range []struct {
		action    string
		session   events.SessionID
		toCurrent bool
		text      string
		err       error
	}{
		{"required", "", false, "", api.ErrMissingSession},
		{"required", "", true, "of s1", nil},
		{"required", "s2", true, "of s2", nil},
		{"optional", "", false, "of ", nil},
		{"optional", "", true, "of s1", nil},
		{"forbidden", "", false, "of ", nil},
		{"forbidden", "s2", false, "", api.ErrUnexpectedSession},
		{"forbidden", "", true, "", api.ErrUnexpectedSession},
	} {
		got, err := s.InvokeAction(t.Context(), c.action, nil, c.session, c.toCurrent, plugin.Absent{})
		runtest.WantError(t, fmt.Sprintf("%s with %q, default %v", c.action, c.session, c.toCurrent), err, c.err)
		runtest.Equal(t, c.action, got.Text, c.text)
	}
	b := harness.StartIdle(t)
	b.StartNode(actions())
	id := b.Open(api.CreateRequest{ID: "here"})
	for action, want := range map[string]string{"required": "of here", "optional": "of here", "forbidden": "of "} {
		runtest.Equal(t, action+" through the host", b.Act(id, action, "{}").Text, want)
	}
}

func testActionCall(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	answer := func(r plugin.Result, err error) plugin.ActionFunc {
		return func(context.Context, plugin.ActionContext, json.RawMessage) (plugin.Result, error) { return r, err }
	}
	s := stackOf(t, harness.PluginOf("actions", func(r *plugin.Registrar) {
		plugin.AddAction(r, plugin.ActionDef{Name: "double"}, func(_ context.Context, _ plugin.ActionContext, v in) (in, error) { return in{2 * v.N}, nil })
		r.Action(plugin.ActionDef{Name: "later"}, answer(plugin.Result{Pending: true, Text: `{"n":1}`}, nil))
		r.Action(plugin.ActionDef{Name: "garbled"}, answer(plugin.Result{Text: `{"n":"x"}`}, nil))
		r.Action(plugin.ActionDef{Name: "refuses"}, answer(plugin.Result{Outcome: events.OutcomeFailure, Text: "not today"}, nil))
		r.Action(plugin.ActionDef{Name: "fails"}, answer(plugin.Result{}, harness.ErrPlugin))
		r.Action(plugin.ActionDef{Name: "panics"}, func(context.Context, plugin.ActionContext, json.RawMessage) (plugin.Result, error) { panic("ouch") })
	}))
	call := func(name string, args any) (in, error) {
		return plugin.CallAction[in](t.Context(), s, name, args, "", true, plugin.Absent{})
	}
	got, err := call("double", in{21})
	runtest.WantError(t, "double", err, nil)
	runtest.Equal(t, "output", got.N, 42)
	_, err = call("unknown", in{})
	runtest.WantError(t, "unknown action", err, api.ErrUnknownAction)
	for name, want := range map[string]string{
		"unknown": "unknown", "later": "pending", "garbled": "output", "refuses": "not today", "fails": harness.ErrPlugin.Error(), "panics": "ouch",
	} {
		_, err := call(name, in{})
		runtest.WantError(t, name, err, api.ErrInvoke)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
	for name, args := range map[string]any{"no JSON": math.Inf(1), "of another type": "x"} {
		_, err := call("double", args)
		runtest.WantError(t, "arguments "+name, err, api.ErrInvoke)
		if err == nil || !strings.Contains(err.Error(), "invalid double args") {
			t.Errorf("arguments %s: got %v, want it to tell of them", name, err)
		}
	}
}

func testLiveTwice(t *testing.T) {
	broken := true
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{
		plugin.New("broken", func(plugin.BuildContext) (plugin.Plugin, error) {
			if broken {
				return nil, errors.New("not yet")
			}
			return harness.Registration(func(*plugin.Registrar) {}), nil
		}),
	}})
	runtest.WantError(t, "host", err, nil)
	build := func(id events.SessionID) (*plugin.Stack, error) {
		return builder.BuildStack(t.Context(), plugin.BuildContext{Session: id}, nil)
	}
	_, err = build("s1")
	runtest.WantError(t, "a build that fails", err, plugin.ErrRegistration)
	broken = false
	first, err := build("s1") // the failure left nothing behind
	runtest.WantError(t, "build", err, nil)
	_, err = build("s1")
	runtest.WantError(t, "build again", err, plugin.ErrRegistration)
	if err == nil || !strings.Contains(err.Error(), "s1") {
		t.Errorf("build again: got %v, want it to name the session", err)
	}
	_, err = build("s2")
	runtest.WantError(t, "another session", err, nil)
	first.Close()
	_, err = build("s1")
	runtest.WantError(t, "build after the close", err, nil)
}
