package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestHooksCallTheirHost has hooks and tools that run concurrently read the session.
func TestHooksCallTheirHost(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "look", `{}`), harness.Call("k2", "look", `{}`), harness.Call("k3", "look", `{}`)), harness.Reply(harness.Text("done")))
	var mu sync.Mutex
	var received []string
	record := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, fmt.Sprintf(format, args...))
	}
	listens := func(id string) plugin.Factory {
		return harness.PluginOf(id, func(r *plugin.Registrar) {
			r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
				if e.Kind == plugin.TurnPersisted {
					return nil // may come when the test has ended
				}
				v, err := e.State.View()
				runtest.WantError(t, "view of "+string(e.Kind), err, nil)
				s, err := e.Host.SnapshotCurrent(ctx)
				runtest.WantError(t, "snapshot at "+string(e.Kind), err, nil)
				record("%s %s %d %d", id, e.Kind, len(v.Messages), len(s.Frames))
				return err
			})
		})
	}
	reads := func(ctx context.Context, host plugin.ToolHost) string {
		s, err := host.SnapshotCurrent(ctx)
		runtest.WantError(t, "snapshot", err, nil)
		v, err := s.View()
		runtest.WantError(t, "view", err, nil)
		return strings.Join(harness.Transcript(v.Messages), "|")
	}
	looks := harness.PluginOf("looks", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			record("before %s", reads(ctx, in.Host))
			return nil, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			return reads(ctx, c.Host), nil
		})
	})
	b.StartNode(looks, listens("one"), listens("two"))
	b.Host = b.OtherHost()
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	const seen = "user go|assistant k1:look{} k2:look{} k3:look{}"
	for _, r := range b.ResultsByPosition(id) {
		runtest.Equal(t, "a tool", r.Text, seen)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"one session_restored 0 1", "two session_restored 0 1", "one turn_finalized 4 1", "two turn_finalized 4 1"} {
		runtest.Equal(t, want, slices.Contains(received, want), true)
	}
	received = slices.DeleteFunc(received, func(s string) bool { return !strings.HasPrefix(s, "before") })
	runtest.EqualLists(t, "hooks before calls", received, []string{"before " + seen, "before " + seen, "before " + seen})
}

// TestHooksShareBodies has hooks of all calls of a reply, and the calls, read a conversation whose text is outside the log: all hooks have the
// same bytes of it in memory, and so do all calls.
func TestHooksShareBodies(t *testing.T) {
	t.Parallel()
	const calls = 8
	var reply []events.Part
	for n := range calls {
		reply = append(reply, harness.Call(events.CallID(fmt.Sprint("k", n)), "look", `{}`))
	}
	b := harness.StartIdle(t, harness.Reply(reply...), harness.Reply(harness.Text("done")))
	long := strings.Repeat("x", 1<<20)
	var mu sync.Mutex
	read, copies := 0, make(map[*byte]bool)
	reads := func(ctx context.Context, host plugin.SnapshotHost) {
		s, err := host.SnapshotCurrent(ctx)
		runtest.WantError(t, "snapshot", err, nil)
		v, err := s.View()
		runtest.WantError(t, "view", err, nil)
		text := v.Messages[0].Parts[0].Text
		runtest.Equal(t, "bytes of the text", len(text), len(long))
		mu.Lock()
		defer mu.Unlock()
		read++
		copies[unsafe.StringData(text)] = true
	}
	b.StartNode(harness.PluginOf("looks", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			reads(ctx, in.Host)
			return nil, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			reads(ctx, c.Host)
			return "", nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text(long)).End, events.EndFinished)
	mu.Lock()
	defer mu.Unlock()
	runtest.Equal(t, "reads", read, 2*calls)
	runtest.Equal(t, "copies", len(copies), 2)
}

// TestHooksOfCalls calls the hooks of the calls of a reply concurrently, and those of one call in the order of the
// plugins.
func TestHooksOfCalls(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "look", `{"a":1}`), harness.Call("k2", "look", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var both sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	order := make(map[events.CallID]string)
	hook := func(id string, wait func()) plugin.Factory {
		return harness.BeforeCallPlugin(id, func(in plugin.ToolContext) []plugin.Directive {
			wait()
			mu.Lock()
			defer mu.Unlock()
			order[in.Call.ID] += id
			return nil
		})
	}
	var runs atomic.Int64
	b.StartNode(harness.CountingTools(&runs, "look"), hook("b", func() { both.Done(); both.Wait() }), hook("a", func() {}), hook("c", func() {}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.Equal(t, "order for the first call", order["k1"], "bac")
	runtest.Equal(t, "order for the second call", order["k2"], "bac")
	runtest.Equal(t, "runs", runs.Load(), 2)
}
