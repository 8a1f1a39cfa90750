package history

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// wholeTurns is the number of newest user turns that stay whole.
const wholeTurns = 2

// maxReplaced limits the bytes of replacements in a view. Messages above it stay unchanged.
const maxReplaced = 64 << 10

// partBytes is the cost of a part without its body.
const partBytes = 128

// pruned replaces old attachments and large old results with placeholders.
func (h *history) pruned(list []events.Message) []events.Message {
	out, replaced := append([]events.Message(nil), list...), 0
	for i := range out[:old(list)] {
		parts, changed, size := append([]events.Part(nil), out[i].Parts...), false, 0
		for j := range parts {
			p := &parts[j]
			switch bytes := len(p.Text) + int(p.Blob.Size); {
			case p.Kind == events.PartAttachment:
				*p, changed = text(fmt.Sprintf("[attachment %s is no longer shown]", p.MediaType)), true
			case p.Kind == events.PartToolResult && bytes > h.o.ResultBytes:
				p.Text, p.Blob, changed = fmt.Sprintf("[the result of %s, %d bytes, is no longer shown]", p.Tool, bytes), events.BlobRef{}, true
			}
			size += len(p.Text) + len(p.Args) + partBytes
		}
		if changed && replaced+size <= maxReplaced {
			out[i].Parts, replaced = parts, replaced+size
		}
	}
	return out
}

// old is the number of messages before the turns that stay whole.
func old(list []events.Message) int {
	turns := 0
	for i := len(list) - 1; i >= 0; i-- {
		if projector.BeginsTurn(&list[i]) {
			if turns++; turns == wholeTurns {
				return i
			}
		}
	}
	return 0
}

// tail is the newest turns that fit, at least one, after a message that says what is left out.
func tail(list []events.Message, capacity int64) []events.Message {
	from, sum := 0, int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		sum += projector.Tokens(list[i : i+1])
		if sum > capacity && from > 0 {
			break
		}
		if projector.BeginsTurn(&list[i]) {
			from = i
		}
	}
	if from == 0 {
		return list
	}
	note := projector.LeftOut(from)
	note.Origin = ID
	return append([]events.Message{note}, list[from:]...)
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }
