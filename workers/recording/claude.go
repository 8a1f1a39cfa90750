package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
)

// FormatClaude is a transcript of Claude Code, one message, or one block of a reply, in each line.
const FormatClaude Format = "claude"

// claudeLine is a line of any type.
type claudeLine struct {
	ID            string          `json:"uuid"`
	Parent        string          `json:"parentUuid"`
	LogicalParent string          `json:"logicalParentUuid"`
	Session       string          `json:"sessionId"`
	Side          bool            `json:"isSidechain"`
	Agent         string          `json:"agentId"`
	Subtype       string          `json:"subtype"`
	IsSummary     bool            `json:"isCompactSummary"`
	IsError       bool            `json:"isApiErrorMessage"`
	Details       json.RawMessage `json:"toolUseResult"`
	Compaction    struct {
		Kept struct {
			First string `json:"headUuid"`
		} `json:"preservedSegment"`
	} `json:"compactMetadata"`
	Message *struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Stop    string          `json:"stop_reason"`
		Content json.RawMessage `json:"content"`
		Usage   usage           `json:"usage"`
	} `json:"message"`
}

// claudeReader reads the lines of one conversation.
type claudeReader struct {
	s         *script
	kept      map[string]string // the entry that stands for each line, for parents
	replies   map[string]int    // index of the reply by the id of the provider's message, whose blocks are lines of their own
	keptFirst string            // line that the next compaction keeps first
}

// isClaude reports whether a line is of Claude Code. Two types of lines do not name their session.
func isClaude(o object) bool {
	snapshot := kindOf(o["messageId"]) == '"' && kindOf(o["snapshot"]) == '{'
	return kindOf(o["sessionId"]) == '"' || kindOf(o["leafUuid"]) == '"' || snapshot
}

func (f *file) addClaude(line int, raw []byte, kind string) error {
	l, err := into[claudeLine](raw)
	if l.Side {
		l.Session += "-" + cmp.Or(l.Agent, "sidechain")
	}
	parent := cmp.Or(l.LogicalParent, l.Parent)
	r := f.claudeBy[parent] // a line continues the conversation of its parent, also after a resume under another id
	if r == nil || r.s.side != l.Side {
		r = f.claude[l.Session]
	}
	speaks := kind == "user" || kind == "assistant"
	if r == nil && !speaks {
		f.lost[kind+" lines"]++
		return nil
	}
	if r == nil {
		r = &claudeReader{s: f.open(FormatClaude, l.Session, line), kept: map[string]string{}, replies: map[string]int{}}
		f.claude[l.Session] = r
		r.s.side = l.Side
	}
	f.last = r.s
	if _, again := r.kept[l.ID]; again {
		r.s.conv.Lost["repeated lines"]++
		return nil
	}
	if known, ok := r.kept[parent]; ok {
		parent = known
	}
	switch {
	case speaks && l.Message == nil:
		return errors.Join(err, errors.New("no message"))
	case kind == "user":
		err = errors.Join(err, r.user(&l, line, parent))
	case kind == "assistant":
		err = errors.Join(err, r.reply(&l, line, parent))
	case l.Subtype == "compact_boundary":
		r.keptFirst = l.Compaction.Kept.First
		r.stand(&l, parent)
	default:
		r.s.conv.Lost[kind+" lines"]++
		r.stand(&l, parent)
		err = nil // whatever else the line has
	}
	f.claudeBy[l.ID] = r
	return err
}

// stand lets an entry stand for a line.
func (r *claudeReader) stand(l *claudeLine, entry string) {
	if l.ID != "" {
		r.kept[l.ID] = entry
	}
}

// put adds an entry below its parent.
func (r *claudeReader) put(e Entry, parent string) string {
	e.Parent = parent
	r.s.add(e)
	return e.ID
}

// user reads a message, with the results in it as entries of their own.
func (r *claudeReader) user(l *claudeLine, line int, parent string) error {
	if kindOf(l.Details) != 'n' {
		r.s.conv.Lost["details of results"]++
	}
	message := Entry{Kind: EntryUser, Line: line, ID: l.ID, Message: events.Message{Role: events.RoleUser}}
	if text := textOf(l.Message.Content); kindOf(l.Message.Content) == '"' {
		message.Message.Parts = []events.Part{textPart(text)}
	}
	blocks, err := blocksOf(l.Message.Content)
	for i := range blocks {
		b := &blocks[i]
		if b.Type != "tool_result" {
			message.Message.Parts = append(message.Message.Parts, b.part(false))
			continue
		}
		parts, wrong := content(b.Content, false)
		err = errors.Join(err, wrong)
		e := Entry{Kind: EntryResult, Line: line, ID: l.ID + "/" + string(b.ToolUseID), Result: Result{Call: b.ToolUseID, Failed: b.IsError}}
		e.Result.Text, e.Result.Attachments = splitResult(parts)
		parent = r.put(e, parent)
	}
	switch {
	case l.IsSummary:
		first, ok := r.s.ids[cmp.Or(r.kept[r.keptFirst], r.keptFirst)]
		if !ok {
			first = -1
		}
		r.keptFirst = ""
		parent = r.put(Entry{Kind: EntryCompaction, Line: line, ID: l.ID, Compaction: Compaction{Summary: message.Message.Text(), FirstKept: first}}, parent)
	case len(message.Message.Parts) > 0:
		r.interrupt(&message.Message)
		parent = r.put(message, parent)
	}
	r.stand(l, parent)
	return err
}

// interrupt ends the reply before a message as cancelled, where that message says so.
func (r *claudeReader) interrupt(m *events.Message) {
	if n := len(r.s.conv.Entries); n > 0 && strings.HasPrefix(m.Text(), "[Request interrupted by user") {
		if last := &r.s.conv.Entries[n-1]; last.Kind == EntryReply && last.Reply.Stop == events.StopUnknown {
			last.Reply.Stop = events.StopCancelled
		}
	}
}

// reply reads one line of a reply. The lines of one reply name the same message; results may be between them.
func (r *claudeReader) reply(l *claudeLine, line int, parent string) error {
	m := l.Message
	parts, err := content(m.Content, true)
	at, known := r.replies[m.ID]
	if !known || m.ID == "" {
		at = len(r.s.conv.Entries)
		r.put(Entry{Kind: EntryReply, Line: line, ID: l.ID}, parent)
		r.replies[m.ID] = at
	}
	r.s.extend(at, parts...)
	e := &r.s.conv.Entries[at]
	e.Reply.Model, e.Reply.Stop, e.Reply.Usage = m.Model, stopOf(m.Stop), m.Usage.events()
	if l.IsError {
		e.Reply.Stop, e.Reply.Error = events.StopProviderError, (events.Message{Parts: parts}).Text()
	}
	r.stand(l, e.ID)
	return err
}
