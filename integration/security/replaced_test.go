package security

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// TestStreamReplacedUnderNode deletes a session's stream under a running node, and restores it from a backup of n turns
// before. Others then append a number of commits, so that the history is shorter than what the node has cached, as long, or
// longer. The next request on the node ends, its turn is of the restored history, and so are all rows.
func TestStreamReplacedUnderNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		lost, extra int // turns after the backup, and commits of another host after the restore
	}{
		{"nothing_is_lost", 0, 0},
		{"one_turn", 1, 0},
		{"many_turns", 4, 0},
		{"shorter_with_other_commits", 4, 2},
		{"longer_with_other_commits", 1, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := install(t).boot()
			var script []harness.Step
			for range 2 + c.lost + 1 {
				script = append(script, harness.Reply(harness.Text("as ever")))
			}
			b := d.bundleOf("node@acme", script...)
			other := b.Host
			b.StartNode()
			b.Open(api.CreateRequest{ID: "s"})
			for turn := range 2 {
				b.RunTurn("s", events.TurnID(fmt.Sprintf("kept-%d", turn)), harness.Text("hello"))
			}
			b.AwaitState("s", "nothing to announce", func(s *projector.State) bool { return len(s.Unnotified) == 0 })
			backup := d.clerk()
			hot := "lash-s-s"
			saved := backup.save(hot)
			restored := b.LastSeq("s")
			for turn := range c.lost {
				b.RunTurn("s", events.TurnID(fmt.Sprintf("lost-%d", turn)), harness.Text("hello"))
			}
			runtest.WantError(t, "save a snapshot of what is lost", saveSnapshot(b), nil)
			runtest.WantError(t, "delete", b.JetStream().DeleteStream(b.Ctx, hot), nil)
			backup.restore(saved)
			runtest.Equal(t, "end of the restored history", b.LastSeq("s"), restored)
			for i := range c.extra {
				_, err := other.AppendNodes(b.Ctx, "s", api.AppendNodesRequest{Nodes: harness.UserMessages(fmt.Sprintf("other-%d", i))})
				runtest.WantError(t, "append", err, nil)
			}
			ctx, cancel := context.WithTimeout(b.Ctx, 2*time.Minute)
			defer cancel()
			_, err := b.Submit(ctx, "s", api.TurnRequest{ID: "after", Input: events.TurnInput{Parts: []events.Part{harness.Text("and now")}}})
			runtest.WantError(t, "submit", err, nil)
			runtest.Equal(t, "end of the next turn", b.AwaitTurn("s", "after").End, events.EndFinished)
			s := b.StateOf("s")
			place, err := s.FindTurn("lost-0")
			runtest.WantError(t, "find", err, nil)
			runtest.Equal(t, "the state has a turn that was lost", place.Known(), false)
			harness.VerifyHistory(t, b.Bus, "s")
			b.AwaitPolling("the rows of the restored history", func() bool {
				fresh, err := follow.Open(b.Ctx, b.Bus, "s")
				runtest.WantError(t, "open", err, nil)
				lost, err := fresh.FindTurn("lost-0")
				runtest.WantError(t, "find", err, nil)
				return !lost.Known() && b.DirectoryRow(b.Ctx, "s").Seq == b.LastSeq("s")
			})
		})
	}
}

// saveSnapshot writes a snapshot of the session, as a projector does some seconds after its last commit.
func saveSnapshot(b *harness.System) error {
	s, err := follow.Whole(b.Ctx, b.Bus, "s")
	if err == nil {
		_, err = follow.Save(b.Ctx, b.Bus, s)
	}
	return err
}
