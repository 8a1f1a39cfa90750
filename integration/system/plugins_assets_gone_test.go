package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// shared lists the streams that belong to no session, as the server lists them.
func shared(b *harness.System) (list []string) {
	b.T.Helper()
	for name := range b.JetStream().StreamNames(b.Ctx).Name() {
		if !strings.HasPrefix(name, "lash-s-") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// TestAssetsGone deletes every shared stream and bucket: first one half, then the other, then all at once. The
// node reports their absence, makes them again, and old and new sessions run as before.
func TestAssetsGone(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, slices.Repeat([]harness.Step{harness.Reply(harness.Text("ok"))}, 64)...)
	node, _ := b.StartNodeOn(b.Bus)
	old := b.Open(api.CreateRequest{ID: "old"})
	b.RunTurn(old, "t0", harness.Text("hi"))
	all := shared(b)
	runtest.Equal(t, "shared streams", len(all), 12)
	all = slices.DeleteFunc(all, func(name string) bool { return name == "lash-archive" }) // the truth about cold sessions: no node makes it up
	js := b.JetStream()
	for i, names := range [][]string{all[:4], all[4:], all} {
		for _, name := range names {
			runtest.WantError(t, "delete "+name, js.DeleteStream(b.Ctx, name), nil)
		}
		if err := node.Ready(b.Ctx); err == nil {
			t.Errorf("without %v: got a node that is ready", names)
		}
		b.AwaitPolling(fmt.Sprintf("%v are made again", names), func() bool { return node.Ready(b.Ctx) == nil })
		runtest.Equal(t, "shared streams", len(shared(b)), 12)
		turn := events.TurnID("t" + string(rune('a'+i)))
		b.RunTurn(old, turn, harness.Text("go on"))
		fresh := b.Open(api.CreateRequest{})
		b.RunTurn(fresh, turn, harness.Text("begin"))
	}
}
