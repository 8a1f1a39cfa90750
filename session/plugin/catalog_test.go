package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// countingProtocol does nothing and counts its preambles. Each catalogue makes one.
type countingProtocol struct {
	plugin.BaseProtocol
	built atomic.Int64
}

func (p *countingProtocol) Preamble(plugin.PreambleInput) plugin.Preamble {
	p.built.Add(1)
	return plugin.Preamble{}
}

// stackOf builds a session's stack of one plugin and a protocol.
func stackOf(t *testing.T, limit time.Duration, register func(*plugin.Registrar)) (*plugin.Stack, *countingProtocol) {
	t.Helper()
	p := &countingProtocol{}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Timeout: limit, Factories: []plugin.Factory{
		plugin.Func("protocol", func(r *plugin.Registrar) error {
			r.Protocol(p)
			r.Driver(p)
			return nil
		}),
		plugin.Func("tools", func(r *plugin.Registrar) error {
			register(r)
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, p
}

func tool(r plugin.ToolAdder, name string) {
	plugin.AddTool(r, plugin.Tool{Name: name}, func(context.Context, plugin.Call, struct{}) (string, error) { return name, nil })
}

func catalog(t *testing.T, s *plugin.Stack, generation int64) *plugin.CatalogEntry {
	t.Helper()
	entry, err := s.Catalog(&projector.Catalog{Generation: generation})
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// TestCatalogAskedFromWithin: a contributor requests the catalogue that is being built. Its request fails, the build
// succeeds.
func TestCatalogAskedFromWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, catalogAskedFromWithin) // a request waits for the build, which waits for it
}

func catalogAskedFromWithin(t *testing.T) {
	t.Helper()
	var s *plugin.Stack
	var within error
	s, p := stackOf(t, time.Minute, func(r *plugin.Registrar) {
		tool(r, "a")
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			_, within = s.Catalog(&projector.Catalog{Generation: 2}) // another key has its own build
			s.Message("free", "to call")
			overlay(s, 1, plugin.Overlay{Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "hi"}}})
			return plugin.CatalogContribution{}, nil
		})
	})
	entry := catalog(t, s, 1)
	if !errors.Is(within, plugin.ErrBuilding) {
		t.Errorf("within: got %v, want %v", within, plugin.ErrBuilding)
	}
	if names := len(entry.Tools); names != 1 || p.built.Load() != 1 {
		t.Errorf("got %d tools after %d builds, want 1 after 1", names, p.built.Load())
	}
	if catalog(t, s, 1) == entry {
		t.Error("got the catalogue that was invalidated while it was built, want another")
	}
}

// TestCatalogBuiltOnce: many concurrent requests share one build.
func TestCatalogBuiltOnce(t *testing.T) {
	t.Parallel()
	s, p := stackOf(t, 0, func(r *plugin.Registrar) { tool(r, "a") })
	var wait sync.WaitGroup
	var entries sync.Map
	for range 32 {
		wait.Go(func() {
			entry, err := s.Catalog(&projector.Catalog{Generation: 1})
			entries.Store(entry, err)
		})
	}
	wait.Wait()
	count := 0
	entries.Range(func(_, err any) bool {
		count++
		return err == nil
	})
	if count != 1 || p.built.Load() != 1 {
		t.Errorf("got %d catalogues of %d builds, want 1 of 1", count, p.built.Load())
	}
}

// TestCatalogHangs: a contributor that never returns fails the build.
func TestCatalogHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	s, _ := stackOf(t, 100*time.Millisecond, func(r *plugin.Registrar) {
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			<-release
			return plugin.CatalogContribution{}, nil
		})
	})
	_, err := s.Catalog(&projector.Catalog{})
	var hook *plugin.HookError
	if !errors.As(err, &hook) || !hook.Hung || hook.Plugin != "tools" {
		t.Errorf("got %v, want a hook of tools that hung", err)
	}
}

// TestCatalogKeys: each input of the key makes a new catalogue.
func TestCatalogKeys(t *testing.T) {
	t.Parallel()
	s, _ := stackOf(t, 0, func(r *plugin.Registrar) { tool(r, "a") })
	entry := catalog(t, s, 1)
	if catalog(t, s, 1) != entry || catalog(t, s, 2) == entry {
		t.Error("got other catalogues, want the same of a generation, and another of another one")
	}
	overlay(s, 1, plugin.Overlay{WithoutBase: true})
	if got := len(catalog(t, s, 1).Tools); got != 0 {
		t.Errorf("tools without the base: got %d, want none", got)
	}
	overlay(s, 2, plugin.Overlay{})
	if again := catalog(t, s, 1); again == entry || len(again.Tools) != 1 {
		t.Errorf("catalogue after the overlay: got %d tools, want one, in another", len(again.Tools))
	}
}

// overlay lays an overlay over a stack's tools, as the history has it at a sequence.
func overlay(s *plugin.Stack, at events.Seq, o plugin.Overlay) {
	s.AddOverlayHandlers(o)
	s.FollowOverlay(projector.Overlay{SessionOverlaid: o.Recorded(), Seq: at}, false)
}

// TestMessageSender sends messages without a sender, with one, and after it is cleared.
func TestMessageSender(t *testing.T) {
	t.Parallel()
	s, _ := stackOf(t, 0, func(*plugin.Registrar) {})
	var got []string
	s.Message("too early", "progress")
	s.SetMessageSender(func(text, kind string) { got = append(got, fmt.Sprintf("%s %s", kind, text)) })
	s.Message("half way", "progress")
	s.Message("x = 1", "lashlang_code")
	s.ClearMessageSender()
	s.Message("too late", "progress")
	if !slices.Equal(got, []string{"progress half way"}) {
		t.Errorf("got %q, want the one that was sent while there was a sender", got)
	}
}

// TestOldCatalogsAreDropped: the tools of a session change many times. The stack keeps the last few catalogues, and a
// source that is read before it is added counts as one of them.
func TestOldCatalogsAreDropped(t *testing.T) {
	t.Parallel()
	s, p := stackOf(t, 0, func(r *plugin.Registrar) {
		tool(r, "a")
		r.Source("more", func(context.Context) (*plugin.Tools, error) { return plugin.NewTools(), nil })
	})
	var kept []weak.Pointer[plugin.CatalogEntry]
	const last = 100
	for generation := range int64(last) {
		kept = append(kept, weak.Make(catalog(t, s, generation)))
		with, err := s.CatalogWith(t.Context(), &projector.Catalog{Generation: generation}, "more")
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, weak.Make(with))
	}
	runtime.GC()
	alive := 0
	for _, entry := range kept {
		if entry.Value() != nil {
			alive++
		}
	}
	if alive == 0 || alive > 16 {
		t.Errorf("got %d of %d catalogues in memory, want a few", alive, len(kept))
	}
	built := p.built.Load()
	if catalog(t, s, last-1); p.built.Load() != built {
		t.Error("the last catalogue was built again")
	}
	runtime.KeepAlive(s)
}
