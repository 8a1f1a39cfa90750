package security

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
)

// TestOneStreamRestored puts an earlier copy of one session's stream back while a node and a host run that have states of the commits which
// are lost by that. The session goes on from what the stream has: nothing that was lost is in a prompt or in a view, also where another
// process has made the new history as long as the lost one, or longer, before they look. What the node then writes verifies.
func TestOneStreamRestored(t *testing.T) {
	t.Parallel()
	for elsewhere := range 4 { // turns that another node's process runs before this one looks
		t.Run(fmt.Sprint(elsewhere), func(t *testing.T) {
			t.Parallel()
			d := install(t).boot()
			b := d.bundleOf("node@acme", slices.Repeat([]harness.Step{harness.Reply(harness.Text("as ever"))}, 16)...)
			b.StartNode()
			id := b.Open(api.CreateRequest{ID: "one"})
			b.RunTurn(id, "t1", harness.Text("kept"))
			clerk := d.clerk()
			name := clerk.names()[slices.IndexFunc(clerk.names(), func(name string) bool { return strings.HasPrefix(name, "lash-s-") })]
			saved := clerk.save(name)
			b.RunTurn(id, "t2", harness.Text("lost one"))
			b.RunTurn(id, "t3", harness.Text("lost two"))
			b.StateOf(id)
			b.LoseStream(id)
			clerk.restore(saved)
			other := d.bundleOf("node@acme")
			for n := range elsewhere {
				turn := events.TurnID(fmt.Sprint("other", n))
				_, err := other.Run(other.Ctx, id, harness.TurnRequest(turn, "elsewhere"))
				harness.WantError(t, "a turn of another process", err, nil)
			}
			b.RunTurn(id, "last", harness.Text("new"))
			prompt := strings.Join(b.Model.Prompt(len(b.Model.Requests())-1), "\n")
			view, err := b.View(b.Ctx, id)
			harness.WantError(t, "view", err, nil)
			for what, text := range map[string]string{"prompt": prompt, "view": fmt.Sprintf("%+v", view)} {
				if !strings.Contains(text, "kept") || !strings.Contains(text, "new") || strings.Contains(text, "lost") || strings.Count(text, "elsewhere") < elsewhere {
					t.Errorf("%s: got %.2000s", what, text)
				}
			}
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}
