package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestViewPages: the pages of a view, one after the other, are the view. Each has a message, and no more bytes than the limit where it has
// two. The last messages are those that a page from their index has.
func TestViewPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := &projector.ReadView{}
		for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
			n := &projector.Node{ID: events.NodeID(fmt.Sprint("n", i)), Kind: events.NodeMessage}
			switch rapid.SampledFrom([]string{"message", "large", "again", "other"}).Draw(t, "kind") {
			case "other":
				n.Kind, n.Body = "plugin", []byte("{}")
			case "again":
				if len(v.Messages) > 0 {
					n.Message = rapid.SampledFrom(v.Messages).Draw(t, "message")
					break
				}
				fallthrough
			case "message":
				n.Message = events.Message{ID: events.MessageID(n.ID), Parts: []events.Part{{Text: "short"}}}
				v.Messages = append(v.Messages, n.Message)
			case "large":
				n.Message = events.Message{ID: events.MessageID(n.ID), Parts: []events.Part{{Text: large}}}
				v.Messages = append(v.Messages, n.Message)
			}
			v.Nodes = append(v.Nodes, n)
		}
		limit := rapid.IntRange(0, 4).Draw(t, "limit")
		var nodes []*projector.Node
		for from := 0; ; {
			page, first, end := viewPage(v, from, limit, 0)
			if nodes = append(nodes, page...); first != from || end == first && end < len(v.Messages) || limit > 0 && end-first > limit {
				t.Fatalf("page from %d: got messages %d to %d", from, first, end)
			}
			bytes := 0
			for _, n := range page {
				bytes += int(n.Bytes())
			}
			if end-first > 1 && bytes > maxViewBytes {
				t.Fatalf("page from %d: got %d bytes in %d messages", from, bytes, end-first)
			}
			if from = end; from >= len(v.Messages) {
				break
			}
		}
		if !slices.Equal(nodes, v.Nodes) {
			t.Fatalf("pages: got %d nodes, want %d", len(nodes), len(v.Nodes))
		}
		last := rapid.IntRange(1, 14).Draw(t, "last")
		page, first, end := viewPage(v, 0, 0, last)
		if same, _, _ := viewPage(v, first, end-first, 0); end != len(v.Messages) || end-first > last || !slices.Equal(page, same) {
			t.Fatalf("last %d: got messages %d to %d of %d", last, first, end, len(v.Messages))
		}
	})
}

// large makes three messages more than a page.
var large = strings.Repeat("x", maxViewBytes*2/5)
