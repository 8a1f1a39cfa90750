package system

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// overlays is an overlay with a tool of its own, one in the place of another, and a contribution.
func overlays() plugin.Overlay {
	set := plugin.NewTools()
	harness.NamedTools(set, "extra")
	plugin.AddTool(set, plugin.Tool{Name: "a"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a of the overlay", nil })
	return plugin.Overlay{
		Tools:         []*plugin.Tools{set},
		Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "Prefer extra tools."}},
	}
}

// catalogue lists the names of a session's tools as its host lists them.
func catalogue(b *harness.System, id events.SessionID) []string {
	b.T.Helper()
	list, err := b.ToolCatalog(b.Ctx, id)
	runtest.WantError(b.T, "catalogue", err, nil)
	names := make([]string, len(list))
	for i := range list {
		var item plugin.CatalogItem
		runtest.WantError(b.T, "item", json.Unmarshal(list[i], &item), nil)
		names[i] = item.Name
	}
	return names
}

// setupOverlaid has a node with two tools, whose catalogue counts its builds.
func setupOverlaid(t *testing.T, script ...harness.Step) (*harness.System, events.SessionID, *atomic.Int64) {
	t.Helper()
	builds := new(atomic.Int64)
	b := harness.StartIdle(t, script...)
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{}), plugin.Func("math", func(r *plugin.Registrar) error {
		harness.NamedTools(r, "a", "b")
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			builds.Add(1)
			return plugin.CatalogContribution{}, nil
		})
		return nil
	}))
	return b, b.Open(api.CreateRequest{}), builds
}

func TestHostOverlay(t *testing.T) {
	t.Parallel()
	b, id, _ := setupOverlaid(t, harness.Reply(harness.Call("1", "a", "{}"), harness.Call("2", "extra", "{}")), harness.Reply(harness.Text("done")), harness.Reply(harness.Call("3", "a", "{}")), harness.Reply(harness.Text("done")))
	runtest.WantError(t, "overlay", b.SetOverlay(b.Ctx, id, overlays()), nil)
	runtest.EqualLists(t, "catalogue", catalogue(b, id), []string{"a", "b", "extra"})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "calls", b.Messages(id)[2], "user 1=a of the overlay 2=extra")
	runtest.Equal(t, "the prompt has the contribution", strings.Contains(b.Model.Prompt(0)[0], "Prefer extra tools."), true)

	runtest.WantError(t, "lift", b.SetOverlay(b.Ctx, id, plugin.Overlay{}), nil)
	runtest.EqualLists(t, "catalogue after it", catalogue(b, id), []string{"a", "b"})
	b.RunTurn(id, "t2", harness.Text("go"))
	list := b.Messages(id)
	runtest.Equal(t, "the session's own again", list[len(list)-2], "user 3=a")
	runtest.Equal(t, "the prompt has no contribution", strings.Contains(strings.Join(b.Model.Prompt(2), "\n"), "Prefer"), false)

	single := overlays()
	single.WithoutBase = true
	runtest.WantError(t, "without the base", b.SetOverlay(b.Ctx, id, single), nil)
	runtest.EqualLists(t, "catalogue without the base", catalogue(b, id), []string{"a", "extra"})
}

// TestHostOverlayKept changes the tools below an overlay: the overlay stays, in this process and until the session
// is closed.
func TestHostOverlayKept(t *testing.T) {
	t.Parallel()
	b, id, builds := setupOverlaid(t)
	over := overlays()
	runtest.WantError(t, "overlay", b.SetOverlay(b.Ctx, id, over), nil)
	catalogue(b, id)
	before := builds.Load()
	runtest.WantError(t, "the same again", b.SetOverlay(b.Ctx, id, over), nil)
	runtest.WantError(t, "one that cannot be composed", b.SetOverlay(b.Ctx, id, plugin.Overlay{Tools: []*plugin.Tools{nil}}), plugin.ErrRegistration)
	runtest.EqualLists(t, "catalogue", catalogue(b, id), []string{"a", "b", "extra"})
	runtest.Equal(t, "builds", builds.Load(), before)

	fork, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{Plugins: api.PluginsFork})
	runtest.WantError(t, "fork", err, nil)
	runtest.EqualLists(t, "catalogue of a fork", catalogue(b, fork.Session), []string{"a", "b", "extra"})
	fresh, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fresh", err, nil)
	runtest.EqualLists(t, "catalogue of a fresh one", catalogue(b, fresh.Session), []string{"a", "b"})
	runtest.WantError(t, "another protocol", b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Protocol = "other"
		return c
	}}), nil)
	runtest.EqualLists(t, "catalogue of the plugins built anew", catalogue(b, id), []string{"a", "b", "extra"})

	runtest.WantError(t, "unknown", b.SetOverlay(b.Ctx, "nobody", over), events.ErrNoSession)
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	runtest.EqualLists(t, "catalogue of a closed one", catalogue(b, id), []string{"a", "b"})
	runtest.WantError(t, "closed", b.SetOverlay(b.Ctx, id, over), api.ErrClosed)
	runtest.WantError(t, "without plugins", b.OtherHost().SetOverlay(b.Ctx, fork.Session, over), plugin.ErrUnavailable)
}

// TestTransformOverlayKept has a plugin set an overlay in one turn, and the plugins rebuilt after it.
func TestTransformOverlayKept(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	var once atomic.Bool
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{}), harness.PluginOf("math", func(r *plugin.Registrar) {
		harness.NamedTools(r, "a", "b")
		r.TransformContext(0, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			if once.CompareAndSwap(false, true) {
				over := overlays()
				now.Overlay = &over
			}
			return now, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.WantError(t, "another protocol", b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Protocol = "other"
		return c
	}}), nil)
	runtest.EqualLists(t, "catalogue", catalogue(b, id), []string{"a", "b", "extra"})
}

// TestHostCatalogRefreshed rebuilds catalogues after a refresh, and only then.
func TestHostCatalogRefreshed(t *testing.T) {
	t.Parallel()
	b, id, builds := setupOverlaid(t)
	catalogue(b, id)
	before := builds.Load()
	catalogue(b, id)
	runtest.Equal(t, "builds before a refresh", builds.Load(), before)
	_, err := b.RefreshCatalog(b.Ctx, id)
	runtest.WantError(t, "refresh", err, nil)
	catalogue(b, id)
	runtest.Equal(t, "builds after a refresh", builds.Load(), before+1)
	_, err = b.RefreshCatalog(b.Ctx, "nobody")
	runtest.WantError(t, "refresh of none", err, events.ErrNoSession)
}

// reading is a protocol that accepts every reply with a call unchanged, so that code may run.
type reading struct{ harness.Protocol }

func (reading) Preamble(plugin.PreambleInput) plugin.Preamble {
	return plugin.Preamble{Read: func(r plugin.Response) plugin.Reading { return plugin.Reading{Parts: r.Parts} }}
}

// executor runs code with a function.
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

func (executor) Snapshot(context.Context, plugin.ProtocolSession) ([]byte, error) { return nil, nil }

func (executor) Restore(_ context.Context, _ plugin.ProtocolSession, _ []byte) error { return nil }

// runsCode has a node whose protocol runs code with this executor, which may be nil.
func runsCode(t *testing.T, e plugin.CodeExecutor, more ...plugin.Factory) (*harness.System, events.SessionID) {
	t.Helper()
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", plugin.ToolCode, `{"language":"go","code":"x"}`)), harness.Reply(harness.Text("done")))
	b.StartNode(append(more, harness.PluginOf("reading", func(r *plugin.Registrar) {
		if e != nil {
			r.CodeExecutor(e)
		}
	}), harness.PluginOf("standard", func(r *plugin.Registrar) {
		r.Protocol(harness.Protocol{})
		r.Driver(reading{})
	}))...)
	return b, b.Open(api.CreateRequest{})
}

// TestCodeSender sends while code runs, and after its end.
func TestCodeSender(t *testing.T) {
	t.Parallel()
	received := make(chan struct{})
	var say func(string, string)
	runs := executor{func(in plugin.ExecContext) (plugin.ExecResponse, error) {
		say = in.Message
		in.Message("x", "lashlang_code")
		in.Message("while it runs", "progress")
		<-received
		return plugin.ExecResponse{Output: "ran"}, nil
	}}
	late := harness.PluginOf("late", func(r *plugin.Registrar) {
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) {
			say("too late", "progress")
			return nil, nil
		})
	})
	b, id := runsCode(t, runs, late)
	var chunks []string
	b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type != api.EventMessage {
			return
		}
		if chunks = append(chunks, e.Kind+" "+e.Text); len(chunks) == 1 {
			close(received)
		}
	})
	runtest.EqualLists(t, "messages", chunks, []string{"progress while it runs"})
	runtest.Equal(t, "output", slices.Contains(b.Outputs(id), "ran"), true)
}
