package internal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/stack"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

// bundle is the stacks of a process whose only plugin counts what happens to it.
type bundle struct {
	stacks     *stack.Stacks
	built      int
	restored   int
	extensions []string
	inBuild    func(ctx context.Context) // called while the stack is built; nil: nothing
}

// counting is the plugin, a protocol.
type counting struct {
	plugin.BaseProtocol
	b *bundle
}

func (c *counting) Preamble(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }

func (c *counting) Register(r *plugin.Registrar) error {
	r.Protocol(c)
	r.Driver(c)
	return nil
}

func (c *counting) Initialize(ctx context.Context, _ plugin.ProtocolSession) error {
	if c.b.inBuild != nil {
		c.b.inBuild(ctx)
	}
	return nil
}

func (c *counting) Restore(context.Context, plugin.ProtocolSession, *projector.State) error {
	c.b.restored++
	c.b.extensions = nil
	return nil
}

func (c *counting) ApplyExtension(_ context.Context, e events.Extension) error {
	c.b.extensions = append(c.b.extensions, e.Type)
	return nil
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupWith(t, stack.Config{})
}

// setupWith is setup with more of the stacks' configuration.
func setupWith(t *testing.T, cfg stack.Config) *bundle {
	t.Helper()
	b := &bundle{}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{
		plugin.New(events.StandardProtocol, func(plugin.BuildContext) (plugin.Plugin, error) {
			b.built++
			return &counting{b: b}, nil
		}),
	}})
	runtest.NoError(t, err)
	cfg.Plugins, cfg.Blobs, cfg.Logger = builder, noBlobs{}, zaptest.NewLogger(t)
	cfg.RuntimeHost = func(events.SessionID) plugin.RuntimeHost { return plugin.Absent{} }
	b.stacks = stack.New(cfg)
	return b
}

type noBlobs struct{}

func (noBlobs) Blob(context.Context, events.BlobRef) ([]byte, error) {
	return nil, errors.New("no blobs here")
}

var _ blob.Reader = noBlobs{}

// opened is a session at a sequence.
func opened(seq events.Seq, extensions ...string) *projector.State {
	s := projector.New("s")
	s.Status, s.Seq = projector.StatusOpen, seq
	s.Frames = []projector.Frame{{ID: "f"}}
	for _, kind := range extensions {
		s.Extensions = append(s.Extensions, events.Extension{Type: kind})
	}
	return s
}

func (b *bundle) open(t *testing.T, s *projector.State) (*plugin.Stack, func()) {
	t.Helper()
	p, _, release, err := b.stacks.Open(t.Context(), s)
	runtest.NoError(t, err)
	return p, release
}

// TestOpenBuildsOnce builds the plugins of a session once for all callers, until the session is forgotten. A caller that
// holds them keeps its own.
func TestOpenBuildsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, release := b.open(t, opened(1))
	second, releaseSecond := b.open(t, opened(2))
	if first != second || b.built != 1 {
		t.Errorf("got %d stacks built, want one for both", b.built)
	}
	b.stacks.Forget("s") // is in use
	third, releaseThird := b.open(t, opened(2))
	if third != first {
		t.Error("forgotten while in use: got another stack")
	}
	release()
	releaseSecond()
	releaseThird()
	b.stacks.Forget("s")
	if last, release := b.open(t, opened(2)); last == first || b.built != 2 {
		t.Errorf("forgotten: got %d built, want another stack", b.built)
	} else {
		release()
	}
	b.stacks.Forget("s")
}

// TestFollow applies the extensions that are new, and restores the protocol after the leaf has moved. An older state
// changes nothing.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.stacks.Forget("s")
	step := func(what string, s *projector.State, restored int, extensions ...string) {
		t.Helper()
		_, release := b.open(t, s)
		release()
		same := len(b.extensions) == len(extensions)
		for i := range extensions {
			same = same && b.extensions[i] == extensions[i]
		}
		if b.restored != restored || !same {
			t.Errorf("%s: got %d restores and extensions %v, want %d and %v", what, b.restored, b.extensions, restored, extensions)
		}
	}
	step("first", opened(3, "a"), 1, "a")
	step("one more", opened(4, "a", "b"), 1, "a", "b")
	step("older", opened(3), 1, "a", "b")
	moved := opened(5, "a", "b")
	moved.Moves = 1
	step("moved", moved, 2, "a", "b")
	next := opened(6, "a", "b")
	next.Moves, next.Frames = 1, []projector.Frame{{ID: "f"}, {ID: "f2"}}
	step("next frame", next, 3, "a", "b")
}

// TestOpenWithin refuses code that builds a stack and asks for the same one: it would wait for itself.
func TestOpenWithin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.stacks.Forget("s")
	var within error
	b.inBuild = func(ctx context.Context) { _, _, _, within = b.stacks.Open(ctx, opened(1)) }
	_, release := b.open(t, opened(1))
	release()
	runtest.WantError(t, "within", within, plugin.ErrBuilding)
}

// TestMemoryIsAwaitedUnlocked has a caller wait for the memory of a state of a plugin: another one has the stack meanwhile.
func TestMemoryIsAwaitedUnlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, p := setup(t), memory.NewPool(1<<20, 1<<20)
		give, err := p.Take(t.Context(), "other", 1<<20)
		runtest.NoError(t, err)
		s := opened(1)
		s.Plugins = []projector.PluginState{{Plugin: "x", Blob: events.BlobRef{Digest: "d", Size: 1 << 19}}}
		a, got := p.Account("a", 0), make(chan error, 1)
		go func() { // ends when it has the memory
			_, _, _, err := b.stacks.Open(a.In(t.Context()), s)
			got <- err
		}()
		synctest.Wait()
		_, unlock, err := b.stacks.Lock(t.Context(), "s")
		runtest.NoError(t, err)
		unlock()
		give()
		if err := <-got; err == nil || errors.Is(err, api.ErrMemory) || a.Holds() {
			t.Errorf("got %v, want that there are no blobs", err)
		}
	})
}

// TestWithoutPlugins refuses in a process that has none.
func TestWithoutPlugins(t *testing.T) {
	t.Parallel()
	s := stack.New(stack.Config{})
	_, _, _, err := s.Open(t.Context(), opened(1))
	runtest.WantError(t, "open", err, plugin.ErrUnavailable)
}

// TestLockWaits has a second caller wait, until its context ends.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, unlock, err := b.stacks.Lock(t.Context(), "s")
	runtest.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, _, err = b.stacks.Lock(ctx, "s")
	runtest.WantError(t, "while locked", err, context.Canceled)
	unlock()
	if _, unlock, err := b.stacks.Lock(t.Context(), "s"); err != nil {
		t.Errorf("unlocked: got %v", err)
	} else {
		unlock()
	}
}
