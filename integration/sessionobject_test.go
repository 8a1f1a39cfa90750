package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// overlays is an overlay with a tool of its own, one in another's place, and a contribution.
func overlays() plugin.Overlay {
	set := plugin.NewTools()
	simple(set, "extra")
	plugin.AddTool(set, plugin.Tool{Name: "a"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a of the overlay", nil })
	return plugin.Overlay{
		Tools:         []*plugin.Tools{set},
		Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "Prefer extra tools."}},
	}
}

// catalogue are the names of a session's tools as its host lists them.
func (b *bundle) catalogue(id events.SessionID) []string {
	b.t.Helper()
	list, err := b.ToolCatalog(b.ctx, id)
	must(b.t, "catalogue", err, nil)
	names := make([]string, len(list))
	for i := range list {
		var item plugin.CatalogItem
		must(b.t, "item", json.Unmarshal(list[i], &item), nil)
		names[i] = item.Name
	}
	return names
}

// setupOverlaid has a node with two tools, whose catalogue counts its builds.
func setupOverlaid(t *testing.T, script ...step) (*bundle, events.SessionID, *atomic.Int64) {
	t.Helper()
	builds := new(atomic.Int64)
	b := setupIdle(t, script...)
	b.node(speaks(protocol{}), plugin.Func("math", func(r *plugin.Registrar) error {
		simple(r, "a", "b")
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			builds.Add(1)
			return plugin.CatalogContribution{}, nil
		})
		return nil
	}))
	return b, b.open(api.CreateRequest{}), builds
}

func TestHostOverlay(t *testing.T) {
	t.Parallel()
	b, id, _ := setupOverlaid(t, reply(call("1", "a", "{}"), call("2", "extra", "{}")), reply(text("done")), reply(call("3", "a", "{}")), reply(text("done")))
	must(t, "overlay", b.SetOverlay(b.ctx, id, overlays()), nil)
	equalLists(t, "catalogue", b.catalogue(id), []string{"a", "b", "extra"})
	b.run(id, "t1", text("go"))
	equal(t, "calls", b.messages(id)[2], "user 1=a of the overlay 2=extra")
	equal(t, "the prompt has the contribution", strings.Contains(b.model.prompt(0)[0], "Prefer extra tools."), true)

	must(t, "lift", b.SetOverlay(b.ctx, id, plugin.Overlay{}), nil)
	equalLists(t, "catalogue after it", b.catalogue(id), []string{"a", "b"})
	b.run(id, "t2", text("go"))
	list := b.messages(id)
	equal(t, "the session's own again", list[len(list)-2], "user 3=a")
	equal(t, "the prompt has no contribution", strings.Contains(strings.Join(b.model.prompt(2), "\n"), "Prefer"), false)

	alone := overlays()
	alone.WithoutBase = true
	must(t, "without the base", b.SetOverlay(b.ctx, id, alone), nil)
	equalLists(t, "catalogue without the base", b.catalogue(id), []string{"a", "extra"})
}

// TestHostOverlayKept changes what an overlay lies over: it stays, in this process and until the session is closed.
func TestHostOverlayKept(t *testing.T) {
	t.Parallel()
	b, id, builds := setupOverlaid(t)
	over := overlays()
	must(t, "overlay", b.SetOverlay(b.ctx, id, over), nil)
	b.catalogue(id)
	before := builds.Load()
	must(t, "the same again", b.SetOverlay(b.ctx, id, over), nil)
	must(t, "one that cannot be composed", b.SetOverlay(b.ctx, id, plugin.Overlay{Tools: []*plugin.Tools{nil}}), plugin.ErrRegistration)
	equalLists(t, "catalogue", b.catalogue(id), []string{"a", "b", "extra"})
	equal(t, "builds", builds.Load(), before)

	fork, err := b.CreateFrom(b.ctx, id, api.CreateRequest{Plugins: api.PluginsFork})
	must(t, "fork", err, nil)
	equalLists(t, "catalogue of a fork", b.catalogue(fork.Session), []string{"a", "b", "extra"})
	fresh, err := b.CreateFrom(b.ctx, id, api.CreateRequest{})
	must(t, "fresh", err, nil)
	equalLists(t, "catalogue of a fresh one", b.catalogue(fresh.Session), []string{"a", "b"})
	must(t, "another protocol", b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Protocol = "other"
		return c
	}}), nil)
	equalLists(t, "catalogue of the plugins built anew", b.catalogue(id), []string{"a", "b", "extra"})

	must(t, "unknown", b.SetOverlay(b.ctx, "nobody", over), events.ErrNoSession)
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	equalLists(t, "catalogue of a closed one", b.catalogue(id), []string{"a", "b"})
	must(t, "closed", b.SetOverlay(b.ctx, id, over), api.ErrClosed)
	must(t, "without plugins", b.otherHost().SetOverlay(b.ctx, fork.Session, over), plugin.ErrUnavailable)
}

// TestTransformOverlayKept has a plugin lay an overlay in one turn, and the plugins built anew after it.
func TestTransformOverlayKept(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	var once atomic.Bool
	b.node(speaks(protocol{}), declares("math", func(r *plugin.Registrar) {
		simple(r, "a", "b")
		r.TransformContext(0, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			if once.CompareAndSwap(false, true) {
				over := overlays()
				now.Overlay = &over
			}
			return now, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	must(t, "another protocol", b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Protocol = "other"
		return c
	}}), nil)
	equalLists(t, "catalogue", b.catalogue(id), []string{"a", "b", "extra"})
}

// TestHostCatalogRefreshed builds catalogues anew when it is told to, and only then.
func TestHostCatalogRefreshed(t *testing.T) {
	t.Parallel()
	b, id, builds := setupOverlaid(t)
	b.catalogue(id)
	for what, again := range map[string]func() error{
		"refresh":    func() error { _, err := b.RefreshCatalog(b.ctx, id); return err },
		"invalidate": func() error { return b.InvalidateCaches(b.ctx, id) },
	} {
		before := builds.Load()
		b.catalogue(id)
		equal(t, "builds before "+what, builds.Load(), before)
		must(t, what, again(), nil)
		b.catalogue(id)
		equal(t, "builds after "+what, builds.Load(), before+1)
	}
	_, err := b.RefreshCatalog(b.ctx, "nobody")
	must(t, "refresh of none", err, events.ErrNoSession)
	must(t, "invalidate of none", b.InvalidateCaches(b.ctx, "nobody"), events.ErrNoSession)
}

// reading is a protocol that takes every reply with a call as it is, so that code may run.
type reading struct{ protocol }

func (reading) Preamble(plugin.PreambleInput) plugin.Preamble {
	return plugin.Preamble{Read: func(r plugin.Response) plugin.Reading { return plugin.Reading{Parts: r.Parts} }}
}

// executor runs code as it is told.
type executor struct {
	run func(plugin.ExecContext) (plugin.ExecResponse, error)
}

func (e executor) Execute(_ context.Context, in plugin.ExecContext, req plugin.ExecRequest) (plugin.ExecResponse, error) {
	if req != (plugin.ExecRequest{Language: "go", Code: "x", AcceptFinish: true}) {
		return plugin.ExecResponse{}, fmt.Errorf("got request %+v", req)
	}
	return e.run(in)
}

func (executor) Dirty() bool { return false }

func (executor) Snapshot(context.Context, plugin.ProtocolSession) ([]byte, error)    { return nil, nil }
func (executor) Restore(_ context.Context, _ plugin.ProtocolSession, _ []byte) error { return nil }

// runsCode has a node whose protocol runs code with this executor, which may be nil.
func runsCode(t *testing.T, e plugin.CodeExecutor, more ...plugin.Factory) (*bundle, events.SessionID) {
	t.Helper()
	b := setupIdle(t, reply(call("1", plugin.ToolCode, `{"language":"go","code":"x"}`)), reply(text("done")))
	b.node(append(more, declares("reading", func(r *plugin.Registrar) {
		if e != nil {
			r.CodeExecutor(e)
		}
	}), declares("standard", func(r *plugin.Registrar) {
		r.Protocol(protocol{})
		r.Driver(reading{})
	}))...)
	return b, b.open(api.CreateRequest{})
}

// TestCodeCannotRun has no executor, and one that is gone: the turn ends, and says why.
func TestCodeCannotRun(t *testing.T) {
	t.Parallel()
	gone := executor{func(plugin.ExecContext) (plugin.ExecResponse, error) {
		return plugin.ExecResponse{}, fmt.Errorf("run: %w", api.ErrRuntimeStopped)
	}}
	for code, c := range map[string]struct {
		executor plugin.CodeExecutor
		err      error
	}{
		"code_execution_unavailable":     {nil, api.ErrCodeUnavailable},
		"code_execution_runtime_stopped": {gone, api.ErrRuntimeStopped},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b, id := runsCode(t, c.executor)
			record := b.run(id, "t1", text("go"))
			equal(t, "end", record.End, events.EndRuntimeError)
			equal(t, "code", record.Issue.Code, code)
			equal(t, "message says why", strings.Contains(record.Issue.Message, c.err.Error()), true)
			equal(t, "outcome", b.outcome(id, "t1").Type, api.OutcomeStopped)
			equal(t, "model calls", len(b.model.asked()), 1)
		})
	}
}

// TestCodeSender sends while code runs, and when it does not any more.
func TestCodeSender(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	var say func(string, string)
	runs := executor{func(in plugin.ExecContext) (plugin.ExecResponse, error) {
		say = in.Message
		in.Message("x", "lashlang_code")
		in.Message("while it runs", "progress")
		<-heard
		return plugin.ExecResponse{Output: "ran"}, nil
	}}
	late := declares("late", func(r *plugin.Registrar) {
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) {
			say("too late", "progress")
			return nil, nil
		})
	})
	b, id := runsCode(t, runs, late)
	var said []string
	b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type != api.EventMessage {
			return
		}
		if said = append(said, e.Kind+" "+e.Text); len(said) == 1 {
			close(heard)
		}
	})
	equalLists(t, "messages", said, []string{"progress while it runs"})
	equal(t, "output", slices.Contains(b.outputs(id), "ran"), true)
}
