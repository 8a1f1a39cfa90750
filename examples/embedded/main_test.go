package main

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/examples/internal/child"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// TestEmbedded answers the question about a letter, both ways: what is approved is sent, and what is not is refused.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"y": "sent to Ann", "n": "[failed] "} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			p := child.Start(t, []string{"OPENAI_BASE_URL=" + child.WritesToAnn(t)}, "Write", "to", "Ann.")
			p.Await(`Let send_letter run? {"To":"Ann","Text":"Monday."} [y/n]`)
			p.Type(answer)
			said := p.Ended()
			for _, part := range []string{"Write to Ann.", "send_letter", "The tool said: " + want} {
				if !strings.Contains(said, part) {
					t.Errorf("got %s, want %q in it", said, part)
				}
			}
		})
	}
}
