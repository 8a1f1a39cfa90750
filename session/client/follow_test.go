package client

import (
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// TestFollower loses pieces at every position of two tries of a model, the second at another node. The shown text,
// after retractions, is always a prefix of one try, and the whole try where no piece of it was lost.
func TestFollower(t *testing.T) {
	t.Parallel()
	say := func(s string) plugin.CompletionDelta { return plugin.CompletionDelta{Kind: events.PartText, Text: s} }
	sent := [][]plugin.CompletionDelta{
		{say("a"), say("b"), {Reset: true}, say("c"), say("d")}, // one try at the first node, and the next
		{say("e"), say("f")},
	}
	for lost := range 1 << 7 {
		shown := ""
		f := newFollower(func(d plugin.CompletionDelta) {
			if shown += d.Text; d.Reset {
				if shown == "" {
					t.Errorf("lost %07b: got a reset of nothing", lost)
				}
				shown = ""
			}
		})
		place := 0
		for i, node := range sent {
			take := f.try()
			if shown != "" {
				t.Errorf("lost %07b: got %q shown when node %d begins, want nothing", lost, shown, i)
			}
			for n, d := range node {
				if place++; lost>>(place-1)&1 != 0 {
					continue
				}
				data, err := events.EncodePayload(&d)
				if err != nil {
					t.Fatal(err)
				}
				take(n, data)
				if !slices.ContainsFunc([]string{"ab", "cd", "ef"}, func(all string) bool { return strings.HasPrefix(all, shown) }) {
					t.Errorf("lost %07b: got %q shown", lost, shown)
				}
			}
			whole := map[int]string{0: "cd", 1: "ef"}[i]
			if pieces := map[int]int{0: 0b0011100, 1: 0b1100000}[i]; lost&pieces == 0 && shown != whole {
				t.Errorf("lost %07b: got %q of node %d, want %q", lost, shown, i, whole)
			}
		}
	}
	if newFollower(nil).try() != nil {
		t.Error("without a stream: got something that takes pieces")
	}
}
