package projector

import "github.com/lash-go/lash/events"

// ViewItems tells the messages of a view as runs of those that there are, and
// as messages in place of others. A message of the same id and content counts as the same.
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

// sameMessage reports equal content. Messages that share their parts need no closer look.
func sameMessage(a, b *events.Message) bool {
	if a.ID == b.ID && a.Role == b.Role && a.Origin == b.Origin && a.Stop == b.Stop && len(a.Parts) == len(b.Parts) &&
		(len(a.Parts) == 0 || &a.Parts[0] == &b.Parts[0]) {
		return true
	}
	return digestOf(*a) == digestOf(*b)
}

// SameMessages reports whether both show the same, message by message.
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
