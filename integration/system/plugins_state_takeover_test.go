package system

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// mindful is a protocol that keeps its extensions in memory: a node that takes a session over has them only if it
// receives the same.
type mindful struct {
	harness.Protocol

	mu       sync.Mutex
	began    []string // sessions, with the number of restores before
	extended []string
	restored []string // frame and leaf of each restore, since the protocol was made
}

func (r *mindful) Register(reg *plugin.Registrar) error {
	reg.Protocol(r)
	reg.Driver(r)
	return nil
}

func (r *mindful) Initialize(_ context.Context, s plugin.ProtocolSession) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = append(r.began, fmt.Sprintf("%s %d", s.Session, len(r.restored)))
	return nil
}

func (r *mindful) Restore(_ context.Context, _ plugin.ProtocolSession, s *projector.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extended = nil
	r.restored = append(r.restored, fmt.Sprintf("%s at %s", s.Frame().Reason, s.Leaf))
	return nil
}

func (r *mindful) ApplyExtension(_ context.Context, e events.Extension) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Type == "refused" {
		return fmt.Errorf("not this one")
	}
	r.extended = append(r.extended, e.Type+string(e.Body))
	return nil
}

// has is the content of the protocol's memory, and the frame of its last restore.
func (r *mindful) has() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.extended, " ")
}

// nodePlugins has one node's plugins, and the content of its protocol before each model call.
type nodePlugins struct {
	mu      sync.Mutex
	prompts []string
	last    *mindful
}

func (n *nodePlugins) lastProtocol() *mindful {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// factories are the plugins of a node. wait runs in the tool hold; level is that of the tool b, which is in no
// history.
func (n *nodePlugins) factories(wait func(context.Context), level *atomic.Pointer[events.Availability], transform bool) []plugin.Factory {
	return []plugin.Factory{
		plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
			r := &mindful{}
			r.Before = func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.prompts = append(n.prompts, fmt.Sprintf("options %s, extensions %s", in.Options, r.has()))
				return nil, nil
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.last = r
			return r, nil
		}),
		plugin.Func("math", func(r *plugin.Registrar) error {
			harness.NamedTools(r, "a", "b")
			plugin.AddTool(r, plugin.Tool{Name: "hold", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
				wait(ctx)
				return "held", ctx.Err()
			})
			r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
				return plugin.CatalogContribution{Levels: map[string]events.Availability{"b": *level.Load()}}, nil
			})
			over := overlays()
			if transform {
				var once atomic.Bool
				r.TransformContext(0, func(_ context.Context, in plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
					if in.Turn == "t1" && once.CompareAndSwap(false, true) {
						now.Overlay = &over
					}
					return now, nil
				})
			}
			return r.Reserve(over.Tools[0])
		}),
	}
}

// setups are the settings on a node before the turn in which it dies.
func setups() map[string]func(b *harness.System, h *session.Host, id events.SessionID) {
	return map[string]func(b *harness.System, h *session.Host, id events.SessionID){
		"overlay": func(b *harness.System, h *session.Host, id events.SessionID) {
			runtest.WantError(b.T, "overlay", h.SetOverlay(b.Ctx, id, overlays()), nil)
		},
		"transform": func(*harness.System, *session.Host, events.SessionID) {},
		"override": func(b *harness.System, h *session.Host, id events.SessionID) {
			_, err := h.SetToolsAvailability(b.Ctx, id, []string{"a"}, "off")
			runtest.WantError(b.T, "override", err, nil)
		},
		"options": func(b *harness.System, h *session.Host, id events.SessionID) {
			runtest.WantError(b.T, "options", h.SetProtocolOptions(b.Ctx, id, json.RawMessage(`{"steps":3}`), false), nil)
		},
		"extension": func(b *harness.System, h *session.Host, id events.SessionID) {
			for _, body := range []string{`{"x":1}`, `{"x":2}`} {
				runtest.WantError(b.T, "extension", h.ApplyExtension(b.Ctx, id, events.Extension{Type: "globals", Body: []byte(body)}), nil)
			}
			if err := h.ApplyExtension(b.Ctx, id, events.Extension{Type: "refused"}); err == nil {
				b.T.Error("got an extension that the protocol refuses, want an error")
			}
		},
	}
}

// offeredWithNotes lists the tools of model call n, with what the system prompt has of them.
func offeredWithNotes(m *harness.Model, n int) []string {
	m.T.Helper()
	list := append(m.Offered(n), "of "+m.Requests()[n].Model)
	for _, msg := range m.Requests()[n].Messages {
		if msg.Role == events.RoleSystem {
			list = append(list, msg.Text())
		}
	}
	return list
}

// TestStateTakenOver sets on one node what turns depend on. The node dies in the middle of a turn. The next node
// continues with the same settings, and so does one that reads the session from its archive.
func TestStateTakenOver(t *testing.T) {
	t.Parallel()
	for name, set := range setups() {
		for _, cold := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "-takeover", true: "-cold"}[cold], func(t *testing.T) {
				t.Parallel()
				takeState(t, name, set, cold)
			})
		}
	}
}

func takeState(t *testing.T, name string, set func(*harness.System, *session.Host, events.SessionID), cold bool) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "hold", "{}")), harness.Reply(harness.Call("2", "extra", "{}"), harness.Call("3", "a", "{}")), harness.Reply(harness.Text("done")),
		harness.Reply(harness.Call("4", "extra", "{}"), harness.Call("5", "a", "{}")), harness.Reply(harness.Text("done")))
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	blocked, nodes := make(chan struct{}, 1), [2]*nodePlugins{{}, {}}
	first, kill := b.StartNodeOn(bustest.Open(t, b.Server), nodes[0].factories(func(ctx context.Context) {
		if !cold {
			blocked <- struct{}{}
			<-ctx.Done()
		}
	}, level, name == "transform")...)
	id, err := first.Host().Create(b.Ctx, api.CreateRequest{})
	runtest.WantError(t, "create", err, nil)
	set(b, first.Host(), id)
	b.StartTurn(id, "t1", harness.Text("go"))
	later := 1
	if cold {
		b.AwaitTurn(id, "t1")
		kill()
		pluginsArchived(b, id)
		later = 3
	} else {
		harness.Receive(b, "the held call", blocked)
		kill()
	}
	second := b.NewNode(bustest.Open(t, b.Server), nodes[1].factories(func(context.Context) {}, level, name == "transform")...)
	before, err := second.Host().State(b.Ctx, id)
	runtest.WantError(t, "state", err, nil)
	b.Launch(second)
	if cold {
		b.StartTurn(id, "t2", harness.Text("again"))
		b.AwaitTurn(id, "t2")
	} else {
		b.AwaitTurn(id, "t1")
	}
	runtest.EqualLists(t, "tools that the model reads", offeredWithNotes(b.Model, later), offeredWithNotes(b.Model, 0))
	runtest.Equal(t, "what the protocol has", nodes[1].prompts[0], nodes[0].prompts[0])
	results := b.Messages(id)
	line := results[len(results)-2]
	switch name {
	case "overlay", "transform":
		runtest.Equal(t, "results", line, map[bool]string{true: "user 4=extra 5=a of the overlay", false: "user 2=extra 3=a of the overlay"}[cold])
		runtest.Equal(t, "recorded tools", len(before.Overlay.Tools), 2)
		runtest.Equal(t, "recorded contributions", len(before.Overlay.Contributions), 1)
	case "extension":
		runtest.Equal(t, "recorded extensions", len(before.Extensions), 2)
		runtest.Equal(t, "has them", strings.HasSuffix(nodes[1].prompts[0], `extensions globals{"x":1} globals{"x":2}`), true)
	}
	runtest.EqualLists(t, "tools after it", toolLevels(b.StateOf(id)), toolLevels(before))
	harness.VerifyHistory(t, b.Bus, id)
}

func toolLevels(s *projector.State) []string {
	var list []string
	for i := range s.Catalog.Tools {
		list = append(list, s.Catalog.Tools[i].Name+" "+s.Catalog.Tools[i].Source+" "+string(s.Catalog.Tools[i].Effective()))
	}
	return list
}

// archived makes a session cold.
func pluginsArchived(b *harness.System, id events.SessionID) {
	b.T.Helper()
	other := bustest.Open(b.T, b.Server)
	a := follow.NewArchiver(other, follow.ArchiverConfig{})
	b.AwaitPolling("archive", func() bool {
		done, err := a.Archive(b.Ctx, id)
		runtest.WantError(b.T, "archive", err, nil)
		return done
	})
}

// TestRefreshTakenOver has two nodes with the catalogue cached. A refresh at one of them rebuilds it on the other
// too.
func TestRefreshTakenOver(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "hold", "{}")), harness.Reply(harness.Text("done")))
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	blocked, nodes := make(chan struct{}, 1), [2]*nodePlugins{{}, {}}
	first, kill := b.StartNodeOn(bustest.Open(t, b.Server), nodes[0].factories(func(ctx context.Context) { blocked <- struct{}{}; <-ctx.Done() }, level, false)...)
	second := b.NewNode(bustest.Open(t, b.Server), nodes[1].factories(func(context.Context) {}, level, false)...)
	id := b.Open(api.CreateRequest{})
	catalogue := func(n *workers.Node) []string {
		t.Helper()
		b.Host = n.Host()
		return catalogue(b, id)
	}
	runtest.EqualLists(t, "the first's", catalogue(first), []string{"a", "b", "hold"})
	runtest.EqualLists(t, "the second's", catalogue(second), []string{"a", "b", "hold"})
	level.Store(new(events.AvailOff))
	_, err := first.Host().RefreshCatalog(b.Ctx, id)
	runtest.WantError(t, "refresh", err, nil)
	runtest.EqualLists(t, "the first's, refreshed", catalogue(first), []string{"a", "hold"})
	runtest.EqualLists(t, "the second's, refreshed", catalogue(second), []string{"a", "hold"})
	runtest.WantError(t, "overlay", first.Host().SetOverlay(b.Ctx, id, overlays()), nil)
	runtest.EqualLists(t, "the second's, overlaid", catalogue(second), []string{"a", "extra", "hold"})
	runtest.WantError(t, "lift", first.Host().SetOverlay(b.Ctx, id, plugin.Overlay{}), nil)
	runtest.EqualLists(t, "the second's, no more", catalogue(second), []string{"a", "hold"})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the held call", blocked)
	kill()
	b.Launch(second)
	b.AwaitTurn(id, "t1")
	runtest.EqualLists(t, "tools that the model reads", offeredWithNotes(b.Model, 1), offeredWithNotes(b.Model, 0))
	runtest.Equal(t, "b is off", slices.Contains(offeredWithNotes(b.Model, 1), "b"), false)
}

// TestOverlayWithoutItsTools has a node take over that has no handler of an overlay's tool: it is left out, with a reason, and so is the
// session's own tool of its name. A call of it fails.
func TestOverlayWithoutItsTools(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "extra", "{}")), harness.Reply(harness.Text("done")))
	first, kill := b.StartNodeOn(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "overlay", first.Host().SetOverlay(b.Ctx, id, overlays()), nil)
	kill()
	b.StartNode()
	runtest.EqualLists(t, "catalogue", catalogue(b, id), nil)
	state, err := b.ToolState(b.Ctx, id)
	runtest.WantError(t, "tools", err, nil)
	if len(state.LeftOut) != 2 || state.LeftOut[1].Name != "extra" || !strings.Contains(state.LeftOut[1].Reason, "another process") {
		t.Errorf("left out: got %+v, want both tools with the reason", state.LeftOut)
	}
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "result", strings.Contains(b.Messages(id)[2], "1=[failed]"), true)
	runtest.Equal(t, "code", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Code, plugin.CodeUnavailable)
	fork, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{Plugins: api.PluginsFork})
	runtest.WantError(t, "fork", err, nil)
	runtest.EqualLists(t, "catalogue of a fork", catalogue(b, fork.Session), nil)
	runtest.Equal(t, "the fork's history has it", len(harness.Find[*events.SessionOverlaid](b, fork.Session)), 1)
}

// TestRestoreFollows restores the protocol after a branch and in a new frame, once for each, on the node where it
// is live, and applies the extensions again.
func TestRestoreFollows(t *testing.T) {
	t.Parallel()
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	n := &nodePlugins{}
	b.StartNode(n.factories(func(context.Context) {}, level, false)...)
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "extension", b.ApplyExtension(b.Ctx, id, events.Extension{Type: "x"}), nil)
	b.RunTurn(id, "t1", harness.Text("go"))
	p := n.lastProtocol()
	restored := func() []string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.restored)
	}
	runtest.EqualLists(t, "at first", restored(), []string{"initial at "})
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, ""), nil)
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.EqualLists(t, "after a branch", restored(), []string{"initial at ", "initial at "})
	opened, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f2", Reason: "mine", Nodes: harness.UserMessages("seed")})
	runtest.WantError(t, "frame", err, nil)
	runtest.Equal(t, "opened", opened, true)
	b.RunTurn(id, "t3", harness.Text("and again"))
	runtest.EqualLists(t, "in a new frame", restored(), []string{"initial at ", "initial at ", "mine at seed"})
	runtest.EqualLists(t, "began", p.began, []string{string(id) + " 0"})
	runtest.Equal(t, "has the extension", p.has(), "x")
	runtest.Equal(t, "the same protocol", n.lastProtocol() == p, true)
	runtest.EqualLists(t, "what it had in each turn", n.prompts, slices.Repeat([]string{"options , extensions x"}, 3))
}
