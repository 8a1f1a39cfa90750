package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// mindful is a protocol that keeps what it is handed in memory: a node that
// takes a session over knows it only if it is handed the same.
type mindful struct {
	protocol

	mu       sync.Mutex
	extended []string
	restored []string // frame and leaf of each restore, since the protocol was made
}

func (r *mindful) Register(reg *plugin.Registrar) error {
	reg.Protocol(r)
	reg.Driver(r)
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

// has is what the protocol remembers, and in which frame it was restored last.
func (r *mindful) has() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.extended, " ")
}

// standin is one node's plugins, and what its protocol saw before each model call.
type standin struct {
	mu   sync.Mutex
	seen []string
	last *mindful
}

func (n *standin) lastProtocol() *mindful {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// factories of a node. wait runs in the tool hold; level is that of the tool b, which no history has.
func (n *standin) factories(wait func(context.Context), level *atomic.Pointer[events.Availability], transform bool) []plugin.Factory {
	return []plugin.Factory{
		plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
			r := &mindful{}
			r.before = func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.seen = append(n.seen, fmt.Sprintf("options %s, extensions %s", in.Options, r.has()))
				return nil, nil
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.last = r
			return r, nil
		}),
		plugin.Func("math", func(r *plugin.Registrar) error {
			simple(r, "a", "b")
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

// setups is what is set on a node before the turn that it dies in.
func setups() map[string]func(b *bundle, h *session.Host, id events.SessionID) {
	return map[string]func(b *bundle, h *session.Host, id events.SessionID){
		"overlay": func(b *bundle, h *session.Host, id events.SessionID) {
			must(b.t, "overlay", h.SetOverlay(b.ctx, id, overlays()), nil)
		},
		"transform": func(*bundle, *session.Host, events.SessionID) {},
		"override": func(b *bundle, h *session.Host, id events.SessionID) {
			_, err := h.SetToolsAvailability(b.ctx, id, []string{"a"}, "off")
			must(b.t, "override", err, nil)
		},
		"options": func(b *bundle, h *session.Host, id events.SessionID) {
			must(b.t, "options", h.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"steps":3}`), false), nil)
		},
		"extension": func(b *bundle, h *session.Host, id events.SessionID) {
			for _, body := range []string{`{"x":1}`, `{"x":2}`} {
				must(b.t, "extension", h.ApplyExtension(b.ctx, id, events.Extension{Type: "globals", Body: []byte(body)}), nil)
			}
			if err := h.ApplyExtension(b.ctx, id, events.Extension{Type: "refused"}); err == nil {
				b.t.Error("got an extension that the protocol refuses, want an error")
			}
		},
	}
}

// offered is the tools of model call n, with what the system says of them.
func (m *model) told(n int) []string {
	m.t.Helper()
	list := append(m.offered(n), "of "+m.asked()[n].Model)
	for _, msg := range m.asked()[n].Messages {
		if msg.Role == events.RoleSystem {
			list = append(list, msg.Text())
		}
	}
	return list
}

// TestStateTakenOver sets on one node what turns depend on. The node dies in
// the middle of a turn: the next one goes on with the same, and so does one
// that reads the session back from its archive.
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

func takeState(t *testing.T, name string, set func(*bundle, *session.Host, events.SessionID), cold bool) {
	b := setupIdle(t, reply(call("1", "hold", "{}")), reply(call("2", "extra", "{}"), call("3", "a", "{}")), reply(text("done")),
		reply(call("4", "extra", "{}"), call("5", "a", "{}")), reply(text("done")))
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	held, nodes := make(chan struct{}, 1), [2]*standin{{}, {}}
	first, kill := b.nodeOn(bustest.Open(t, b.server), nodes[0].factories(func(ctx context.Context) {
		if !cold {
			held <- struct{}{}
			<-ctx.Done()
		}
	}, level, name == "transform")...)
	id, err := first.Host().Create(b.ctx, api.CreateRequest{})
	must(t, "create", err, nil)
	set(b, first.Host(), id)
	b.submit(id, "t1", text("go"))
	later := 1
	if cold {
		b.ended(id, "t1")
		kill()
		archived(b, id)
		later = 3
	} else {
		receive(b, "the held call", held)
		kill()
	}
	second := b.newNodeOn(bustest.Open(t, b.server), nodes[1].factories(func(context.Context) {}, level, name == "transform")...)
	before, err := second.Host().State(b.ctx, id)
	must(t, "state", err, nil)
	b.startNode(second)
	if cold {
		b.submit(id, "t2", text("again"))
		b.ended(id, "t2")
	} else {
		b.ended(id, "t1")
	}
	equalLists(t, "what the model is told", b.model.told(later), b.model.told(0))
	equal(t, "what the protocol has", nodes[1].seen[0], nodes[0].seen[0])
	results := b.messages(id)
	line := results[len(results)-2]
	switch name {
	case "overlay", "transform":
		equal(t, "results", line, map[bool]string{true: "user 4=extra 5=a of the overlay", false: "user 2=extra 3=a of the overlay"}[cold])
		equal(t, "recorded tools", len(before.Overlay.Tools), 2)
		equal(t, "recorded contributions", len(before.Overlay.Contributions), 1)
	case "extension":
		equal(t, "recorded extensions", len(before.Extensions), 2)
		equal(t, "has them", strings.HasSuffix(nodes[1].seen[0], `extensions globals{"x":1} globals{"x":2}`), true)
	}
	equalLists(t, "tools after it", toolLevels(b.state(id)), toolLevels(before))
	verified(t, b.bus, id)
}

func toolLevels(s *projector.State) []string {
	var list []string
	for i := range s.Catalog.Tools {
		list = append(list, s.Catalog.Tools[i].Name+" "+s.Catalog.Tools[i].Source+" "+string(s.Catalog.Tools[i].Effective()))
	}
	return list
}

// archived makes a session cold.
func archived(b *bundle, id events.SessionID) {
	b.t.Helper()
	other := bustest.Open(b.t, b.server)
	a := follow.NewArchiver(other, follow.ArchiverConfig{})
	b.until("archive", func() bool {
		done, err := a.Archive(b.ctx, id)
		must(b.t, "archive", err, nil)
		return done
	})
}

// TestRefreshTakenOver has two nodes with the catalogue at hand. What one of them
// is told to build anew, the other does too.
func TestRefreshTakenOver(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("1", "hold", "{}")), reply(text("done")))
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	held, nodes := make(chan struct{}, 1), [2]*standin{{}, {}}
	first, kill := b.nodeOn(bustest.Open(t, b.server), nodes[0].factories(func(ctx context.Context) { held <- struct{}{}; <-ctx.Done() }, level, false)...)
	second := b.newNodeOn(bustest.Open(t, b.server), nodes[1].factories(func(context.Context) {}, level, false)...)
	id := b.open(api.CreateRequest{})
	catalogue := func(n *workers.Node) []string {
		t.Helper()
		b.Host = n.Host()
		return b.catalogue(id)
	}
	equalLists(t, "the first's", catalogue(first), []string{"a", "b", "hold"})
	equalLists(t, "the second's", catalogue(second), []string{"a", "b", "hold"})
	level.Store(new(events.AvailOff))
	_, err := first.Host().RefreshCatalog(b.ctx, id)
	must(t, "refresh", err, nil)
	equalLists(t, "the first's, refreshed", catalogue(first), []string{"a", "hold"})
	equalLists(t, "the second's, refreshed", catalogue(second), []string{"a", "hold"})
	must(t, "overlay", first.Host().SetOverlay(b.ctx, id, overlays()), nil)
	equalLists(t, "the second's, overlaid", catalogue(second), []string{"a", "extra", "hold"})
	must(t, "lift", first.Host().SetOverlay(b.ctx, id, plugin.Overlay{}), nil)
	equalLists(t, "the second's, no more", catalogue(second), []string{"a", "hold"})
	b.submit(id, "t1", text("go"))
	receive(b, "the held call", held)
	kill()
	b.startNode(second)
	b.ended(id, "t1")
	equalLists(t, "what the model is told", b.model.told(1), b.model.told(0))
	equal(t, "b is off", slices.Contains(b.model.told(1), "b"), false)
}

// TestOverlayWithoutItsTools has a node take over that has no handler of an overlay's tool:
// the catalogue is as the history says, and the call says what is missing.
func TestOverlayWithoutItsTools(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("1", "extra", "{}")), reply(text("done")))
	first, kill := b.nodeOn(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	must(t, "overlay", first.Host().SetOverlay(b.ctx, id, overlays()), nil)
	kill()
	b.node()
	equalLists(t, "catalogue", b.catalogue(id), []string{"a", "extra"})
	b.run(id, "t1", text("go"))
	equal(t, "result", strings.Contains(b.messages(id)[2], "1=[failed]"), true)
	equal(t, "code", find[*events.ToolReturned](b, id)[0].Results[0].Code, plugin.CodeUnavailable)
	fork, err := b.CreateFrom(b.ctx, id, api.CreateRequest{Plugins: api.PluginsFork})
	must(t, "fork", err, nil)
	equalLists(t, "catalogue of a fork", b.catalogue(fork.Session), []string{"a", "extra"})
	equal(t, "the fork's history has it", len(find[*events.SessionOverlaid](b, fork.Session)), 1)
}

// TestRestoreFollows restores the protocol after a branch and in a new frame, once for each,
// on the node that it is live on, and hands it the extensions again.
func TestRestoreFollows(t *testing.T) {
	t.Parallel()
	level := new(atomic.Pointer[events.Availability])
	level.Store(new(events.AvailShowcased))
	b := setupIdle(t, reply(text("one")), reply(text("two")), reply(text("three")))
	n := &standin{}
	b.node(n.factories(func(context.Context) {}, level, false)...)
	id := b.open(api.CreateRequest{})
	must(t, "extension", b.ApplyExtension(b.ctx, id, events.Extension{Type: "x"}), nil)
	b.run(id, "t1", text("go"))
	p := n.lastProtocol()
	restored := func() []string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.restored)
	}
	equalLists(t, "at first", restored(), []string{"initial at "})
	must(t, "branch", b.BranchTo(b.ctx, id, ""), nil)
	b.run(id, "t2", text("again"))
	equalLists(t, "after a branch", restored(), []string{"initial at ", "initial at "})
	opened, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "f2", Reason: "mine", Nodes: says("seed")})
	must(t, "frame", err, nil)
	equal(t, "opened", opened, true)
	b.run(id, "t3", text("and again"))
	equalLists(t, "in a new frame", restored(), []string{"initial at ", "initial at ", "mine at seed"})
	equal(t, "has the extension", p.has(), "x")
	equal(t, "the same protocol", n.lastProtocol() == p, true)
	equalLists(t, "what it had in each turn", n.seen, slices.Repeat([]string{"options , extensions x"}, 3))
}

// saving is a mindful protocol that keeps in its state what it is handed.
type saving struct {
	mindful
	kept plugin.State[[]string]
}

func (s *saving) Register(reg *plugin.Registrar) error {
	reg.Protocol(protocolOf{s})
	reg.Driver(s)
	return nil
}

func (s *saving) Revision() uint64                                  { return s.kept.Revision() }
func (s *saving) Snapshot(w *plugin.SnapshotWriter) ([]byte, error) { return s.kept.Snapshot(w) }
func (s *saving) Restore(meta plugin.Meta, r plugin.SnapshotReader) error {
	return s.kept.Restore(meta, r)
}

// protocolOf is the part of a saving plugin that is the protocol.
type protocolOf struct{ *saving }

func (p protocolOf) Restore(ctx context.Context, s plugin.ProtocolSession, state *projector.State) error {
	return p.mindful.Restore(ctx, s, state)
}

func (p protocolOf) ApplyExtension(ctx context.Context, e events.Extension) error {
	p.kept.Update(func(list *[]string) { *list = append(*list, e.Type) })
	return p.mindful.ApplyExtension(ctx, e)
}

// TestExtensionSaved hands extensions to a protocol that saves what it makes of them: another node
// has that, and is not handed them again. One that saves nothing takes so many.
func TestExtensionSaved(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	var last *saving
	factory := plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
		last = &saving{}
		return last, nil
	})
	_, kill := b.nodeOn(bustest.Open(t, b.server), factory)
	b.Host = b.newNodeOn(bustest.Open(t, b.server), factory).Host()
	id := b.open(api.CreateRequest{})
	for range check.MaxExtensions + 1 {
		must(t, "extension", b.ApplyExtension(b.ctx, id, events.Extension{Type: "x"}), nil)
	}
	kill()
	b.node(factory)
	b.catalogue(id)
	equal(t, "kept", len(last.kept.Load()), check.MaxExtensions+1)
	equal(t, "handed again", len(last.extended), 0)
	equal(t, "recorded", len(find[*events.SessionExtended](b, id)), check.MaxExtensions+1)
	equal(t, "folded", len(b.state(id).Extensions), 0)

	p := &mindful{}
	b = setupIdle(t)
	b.node(plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) { return p, nil }))
	id = b.open(api.CreateRequest{})
	for range check.MaxExtensions {
		must(t, "extension", b.ApplyExtension(b.ctx, id, events.Extension{Type: "x"}), nil)
	}
	var limit *api.LimitError
	if err := b.ApplyExtension(b.ctx, id, events.Extension{Type: "x"}); !errors.As(err, &limit) || limit.Limit != check.MaxExtensions {
		t.Errorf("one more: got %v, want a limit of %d", err, check.MaxExtensions)
	}
	equal(t, "handed", len(p.extended), check.MaxExtensions)
	var field *events.FieldError
	large := events.Extension{Type: "x", Body: []byte(`"` + strings.Repeat("x", check.MaxExtensionBytes) + `"`)}
	if err := b.ApplyExtension(b.ctx, id, large); !errors.As(err, &field) || field.Field != "body" {
		t.Errorf("a large one: got %v, want a field error of body", err)
	}
	must(t, "overlay", b.SetOverlay(b.ctx, id, plugin.Overlay{Contributions: []events.Contribution{{
		Slot: events.SlotIntro, Content: strings.Repeat("x", plugin.MaxOverlayBytes),
	}}}), events.ErrTooLarge)
}
