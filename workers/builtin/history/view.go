package history

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// Estimated costs of messages.
const (
	bytesPerToken    = 4
	attachmentTokens = 1200
)

// wholeTurns is the number of newest user turns that stay whole.
const wholeTurns = 2

// maxReplaced limits the bytes of replacements in a view. Messages above it stay unchanged.
const maxReplaced = 64 << 10

// partBytes is the cost of a part without its body.
const partBytes = 128

// tokens estimates the tokens of messages.
func tokens(list []events.Message) (n int64) {
	for i := range list {
		for _, p := range list[i].Parts {
			if p.Kind == events.PartAttachment {
				n += attachmentTokens
			} else {
				n += (int64(len(p.Text)+len(p.Args)) + p.Blob.Size + bytesPerToken - 1) / bytesPerToken
			}
		}
	}
	return n
}

// beginsTurn reports whether a message begins a user's turn. A cut is possible there: no call waits for its result.
func beginsTurn(m *events.Message) bool {
	for i := range m.Parts {
		if m.Parts[i].Kind == events.PartToolResult {
			return false
		}
	}
	return m.Role == events.RoleUser && m.Origin == ""
}

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
		if beginsTurn(&list[i]) {
			if turns++; turns == wholeTurns {
				return i
			}
		}
	}
	return 0
}

// tail is the newest turns that fit, at least one.
func tail(list []events.Message, capacity int64) []events.Message {
	from, sum := 0, int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		sum += tokens(list[i : i+1])
		if sum > capacity && from > 0 {
			break
		}
		if beginsTurn(&list[i]) {
			from = i
		}
	}
	return list[from:]
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }
