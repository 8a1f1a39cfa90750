package projector

import (
	"bytes"
	"slices"

	"github.com/lash-go/lash/events"
)

// ViewItems describes the messages after as ranges of the messages before, and as new messages. Messages of equal id
// and content count as the same.
func ViewItems(before, after []events.Message) []events.ViewItem {
	at := make(map[events.MessageID]int, len(before))
	for i := range before {
		at[before[i].ID] = i
	}
	var items []events.ViewItem
	run := -1 // index of the last message of the open run
	for i := range after {
		j, known := at[after[i].ID]
		switch {
		case !known || !sameMessage(&before[j], &after[i]):
			items, run = append(items, events.ViewItem{Message: after[i]}), -1
		case run >= 0 && j == run+1:
			items[len(items)-1].To, run = after[i].ID, j
		default:
			items, run = append(items, events.ViewItem{From: after[i].ID, To: after[i].ID}), j
		}
	}
	return items
}

// sameMessage reports whether id and content are equal.
func sameMessage(a, b *events.Message) bool {
	return a.ID == b.ID && a.Role == b.Role && a.Origin == b.Origin && a.Stop == b.Stop && slices.EqualFunc(a.Parts, b.Parts, samePart)
}

func samePart(a, b events.Part) bool {
	return a.Kind == b.Kind && a.Text == b.Text && a.Blob == b.Blob && a.Call == b.Call && a.Tool == b.Tool &&
		a.Outcome == b.Outcome && a.MediaType == b.MediaType && bytes.Equal(a.Args, b.Args) && bytes.Equal(a.Meta, b.Meta)
}

// SameMessages reports whether two lists are equal, message by message.
func SameMessages(a, b []events.Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameMessage(&a[i], &b[i]) {
			return false
		}
	}
	return true
}
