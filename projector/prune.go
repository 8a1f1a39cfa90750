package projector

import (
	"fmt"
	"math"
	"slices"

	"github.com/lash-go/lash/events"
)

// Estimated costs of messages.
const (
	bytesPerToken    = 4
	attachmentTokens = 1200
)

// Bytes of a result, or of a call's arguments, that stay: more becomes a placeholder, or is cut to this at the least.
const pruneBytes = 512

// Tokens estimates the tokens of messages by their bytes.
func Tokens(list []events.Message) (n int64) {
	for i := range list {
		for j := range list[i].Parts {
			n += partTokens(&list[i].Parts[j])
		}
	}
	return n
}

func partTokens(p *events.Part) int64 {
	if p.Kind == events.PartAttachment {
		return attachmentTokens
	}
	return (max(int64(len(p.Text)+len(p.Args)), p.Blob.Size) + bytesPerToken - 1) / bytesPerToken
}

// BeginsTurn reports whether a message begins a turn of the user. What is before it can be left out: no call waits for
// its result.
func BeginsTurn(m *events.Message) bool {
	for i := range m.Parts {
		if m.Parts[i].Kind == events.PartToolResult {
			return false
		}
	}
	return m.Role == events.RoleUser && m.Origin == ""
}

// LeftOut is a message of the system in place of earlier ones.
func LeftOut(messages int) events.Message {
	text := fmt.Sprintf("[%d earlier messages of this conversation are left out: the context window is full. A compaction summarises them.]", messages)
	return events.Message{Role: events.RoleSystem, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
}

// Prune makes room in the messages of a prompt, until [Tokens] of them are at most so many: placeholders replace old
// attachments, results and arguments, oldest first, of this turn too; then whole turns are left out, oldest first, with a
// message that says so; then the results of the last calls are cut. It returns the number of changes. The user's last
// words, and the last reply, stay. A body outside the log counts, and is not cut. The input is not changed.
func Prune(list []events.Message, most int64) (out []events.Message, changes int) {
	p := pruning{list: slices.Clone(list), excess: Tokens(list) - most}
	last := len(list) - 1
	for last > 0 && list[last].Role != events.RoleAssistant {
		last--
	}
	for i := 0; i < last && p.excess > 0; i++ {
		p.replace(i)
	}
	if p.excess > 0 {
		last -= p.leaveOut()
	}
	if p.excess > 0 {
		p.cut(max(last, 0))
	}
	return p.list, p.changes
}

type pruning struct {
	list    []events.Message
	excess  int64 // tokens that are too many
	changes int
}

// replace replaces the parts of a message.
func (p *pruning) replace(at int) {
	parts := p.list[at].Parts
	owned := false
	for i := range parts {
		with := parts[i]
		size := max(len(with.Text)+len(with.Args), int(with.Blob.Size))
		switch {
		case with.Kind == events.PartAttachment:
			with = events.Part{Kind: events.PartText, Text: fmt.Sprintf("[attachment %s is no longer shown]", with.MediaType)}
		case size <= pruneBytes:
			continue
		case with.Kind == events.PartToolResult:
			with.Text, with.Blob = fmt.Sprintf("[the result of %s, %d bytes, is no longer shown]", with.Tool, size), events.BlobRef{}
		case with.Kind == events.PartToolCall:
			with.Args, with.Blob = fmt.Appendf(nil, `{"omitted":"%d bytes of arguments are no longer shown"}`, size), events.BlobRef{}
		default:
			continue
		}
		if !owned {
			parts, owned = slices.Clone(parts), true
			p.list[at].Parts = parts
		}
		p.excess -= partTokens(&parts[i]) - partTokens(&with)
		parts[i] = with
		p.changes++
	}
}

// leaveOut leaves whole turns out, and returns by how many messages the list is shorter.
func (p *pruning) leaveOut() int {
	first := 0
	for first < len(p.list) && p.list[first].Role == events.RoleSystem {
		first++
	}
	note := Tokens([]events.Message{LeftOut(len(p.list))})
	upto, freed := first, -note
	for i := first; i < len(p.list); i++ {
		if BeginsTurn(&p.list[i]) && i > first {
			if upto = i; freed >= p.excess {
				break
			}
		}
		freed += Tokens(p.list[i : i+1])
	}
	if freed = Tokens(p.list[first:upto]) - note; freed <= 0 {
		return 0
	}
	p.excess -= freed
	p.changes += upto - first
	p.list = slices.Concat(p.list[:first], []events.Message{LeftOut(upto - first)}, p.list[upto:])
	return upto - first - 1
}

// cut cuts the results from a message on, the longest ones to one length.
func (p *pruning) cut(from int) {
	limit := p.cutTo(from)
	for i := from; i < len(p.list); i++ {
		parts := slices.Clone(p.list[i].Parts)
		for j := range parts {
			part := &parts[j]
			if part.Kind != events.PartToolResult || len(part.Text) <= limit {
				continue
			}
			had, size := partTokens(part), len(part.Text)
			shown := limit - len(cutNote(limit, size))
			head := events.Clip(part.Text, shown, "")
			part.Text, part.Blob = head+cutNote(len(head), size), events.BlobRef{}
			p.excess -= had - partTokens(part)
			p.changes++
		}
		p.list[i].Parts = parts
	}
}

func cutNote(shown, of int) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes are shown]", shown, of)
}

// cutTo is the length in bytes, with which the results from a message on have the excess no more; [pruneBytes] at the least.
func (p *pruning) cutTo(from int) int {
	var sizes []int64 // in tokens
	room := -p.excess
	for i := from; i < len(p.list); i++ {
		for j := range p.list[i].Parts {
			if part := &p.list[i].Parts[j]; part.Kind == events.PartToolResult {
				sizes = append(sizes, partTokens(part))
				room += partTokens(part)
			}
		}
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		share := room / int64(len(sizes)-i)
		if size > share {
			return max(int(share)*bytesPerToken, pruneBytes)
		}
		room -= size
	}
	return math.MaxInt // nothing to cut
}
