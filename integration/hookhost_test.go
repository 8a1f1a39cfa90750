package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestHooksAskTheirHost lets hooks and tools that run beside each other read the session.
func TestHooksAskTheirHost(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k1", "look", `{}`), call("k2", "look", `{}`), call("k3", "look", `{}`)), reply(text("done")))
	var mu sync.Mutex
	var told []string
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf(format, args...))
	}
	listens := func(id string) plugin.Factory {
		return declares(id, func(r *plugin.Registrar) {
			r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
				if e.Kind == plugin.TurnPersisted {
					return nil // may come when the test has ended
				}
				v, err := e.State.View()
				must(t, "view of "+string(e.Kind), err, nil)
				s, err := e.Host.SnapshotCurrent(ctx)
				must(t, "snapshot at "+string(e.Kind), err, nil)
				tell("%s %s %d %d", id, e.Kind, len(v.Messages), len(s.Frames))
				return err
			})
		})
	}
	reads := func(ctx context.Context, host plugin.ToolHost) string {
		s, err := host.SnapshotCurrent(ctx)
		must(t, "snapshot", err, nil)
		v, err := s.View()
		must(t, "view", err, nil)
		return strings.Join(transcript(v.Messages), "|")
	}
	looks := declares("looks", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			tell("before %s", reads(ctx, in.Host))
			return nil, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			return reads(ctx, c.Host), nil
		})
	})
	b.node(looks, listens("one"), listens("two"))
	b.Host = b.otherHost()
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	const seen = "user go|assistant k1:look{} k2:look{} k3:look{}"
	for _, r := range b.resultsOf(id) {
		equal(t, "a tool", r.Text, seen)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"one session_restored 0 1", "two session_restored 0 1", "one turn_finalized 4 1", "two turn_finalized 4 1"} {
		equal(t, want, slices.Contains(told, want), true)
	}
	told = slices.DeleteFunc(told, func(s string) bool { return !strings.HasPrefix(s, "before") })
	equalLists(t, "hooks before calls", told, []string{"before " + seen, "before " + seen, "before " + seen})
}

// TestHooksOfCalls asks the hooks about the calls of a reply beside each other,
// and about one call in the order of the plugins.
func TestHooksOfCalls(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k1", "look", `{"a":1}`), call("k2", "look", `{"a":1}`)), reply(text("done")))
	var both sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	order := make(map[events.CallID]string)
	hook := func(id string, wait func()) plugin.Factory {
		return gatesCalls(id, func(in plugin.ToolContext) []plugin.Directive {
			wait()
			mu.Lock()
			defer mu.Unlock()
			order[in.Call.ID] += id
			return nil
		})
	}
	var runs atomic.Int64
	b.node(answering(&runs, "look"), hook("b", func() { both.Done(); both.Wait() }), hook("a", func() {}), hook("c", func() {}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equal(t, "order for the first call", order["k1"], "bac")
	equal(t, "order for the second call", order["k2"], "bac")
	equal(t, "runs", runs.Load(), 2)
}
