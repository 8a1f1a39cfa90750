package history

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// What messages are taken to cost.
const (
	bytesPerToken    = 4
	attachmentTokens = 1200
)

// wholeTurns is how many of the last user turns are shown whole.
const wholeTurns = 2

// maxReplaced bounds what a view records in place of messages, in bytes. What is beyond it stays as it was.
const maxReplaced = 64 << 10

// partBytes is what a part takes besides its body.
const partBytes = 128

// tokens estimates what messages cost.
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

// begins reports whether a message begins a user's turn: a place to cut, as no call waits for its result there.
func begins(m *events.Message) bool {
	for i := range m.Parts {
		if m.Parts[i].Kind == events.PartToolResult {
			return false
		}
	}
	return m.Role == events.RoleUser && m.Origin == ""
}

// pruned puts placeholders where old attachments and large old results were.
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

// old is how many messages come before the last whole turns.
func old(list []events.Message) int {
	turns := 0
	for i := len(list) - 1; i >= 0; i-- {
		if begins(&list[i]) {
			if turns++; turns == wholeTurns {
				return i
			}
		}
	}
	return 0
}

// tail is the newest turns that fit, one at least.
func tail(list []events.Message, room int64) []events.Message {
	from, sum := 0, int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		sum += tokens(list[i : i+1])
		if sum > room && from > 0 {
			break
		}
		if begins(&list[i]) {
			from = i
		}
	}
	return list[from:]
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }
