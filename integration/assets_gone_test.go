package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// shared are the streams that belong to no session, as the server lists them.
func (b *bundle) shared() (list []string) {
	b.t.Helper()
	for name := range b.jetstream().StreamNames(b.ctx).Name() {
		if !strings.HasPrefix(name, "lash-s-") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// TestAssetsGone deletes every shared stream and bucket, a half of them after
// the other, and all at once: the node says so while they are gone, makes them again, and
// sessions run as before, old ones and new ones.
func TestAssetsGone(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, slices.Repeat([]step{reply(text("ok"))}, 64)...)
	node, _ := b.nodeOn(b.bus)
	old := b.open(api.CreateRequest{ID: "old"})
	b.run(old, "t0", text("hi"))
	all := b.shared()
	equal(t, "shared streams", len(all), 10)
	all = slices.DeleteFunc(all, func(name string) bool { return name == "lash-archive" }) // the truth about cold sessions: no node makes it up
	js := b.jetstream()
	for i, names := range [][]string{all[:4], all[4:], all} {
		for _, name := range names {
			must(t, "delete "+name, js.DeleteStream(b.ctx, name), nil)
		}
		if err := node.Ready(b.ctx); err == nil {
			t.Errorf("without %v: got a node that is ready", names)
		}
		for node.Ready(b.ctx) != nil {
			if !bus.Sleep(b.ctx, 10*time.Millisecond) {
				t.Fatalf("%v: not made again: got %v", names, node.Ready(b.ctx))
			}
		}
		equal(t, "shared streams", len(b.shared()), 10)
		turn := events.TurnID("t" + string(rune('a'+i)))
		b.run(old, turn, text("go on"))
		fresh := b.open(api.CreateRequest{})
		b.run(fresh, turn, text("begin"))
	}
}
