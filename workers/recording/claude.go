package recording

import (
	"cmp"
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
)

// FormatClaude is a transcript of Claude Code, one message, or one block of a reply, in each line.
const FormatClaude Format = "claude"

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

func (f *file) addClaude(line int, o object, kind string) error {
	l := fields{o: o}
	id, parent := l.text("uuid"), cmp.Or(l.text("logicalParentUuid"), l.text("parentUuid"))
	session, side := l.text("sessionId"), l.flag("isSidechain")
	if side {
		session += "-" + cmp.Or(l.text("agentId"), "sidechain")
	}
	if l.err != nil {
		return l.err
	}
	r := f.claudeBy[parent] // a line continues the conversation of its parent, also after a resume under another id
	if r == nil || r.s.side != side {
		r = f.claude[session]
	}
	if r == nil && kind != "user" && kind != "assistant" {
		f.lose(kind + " lines")
		return nil
	}
	if r == nil {
		r = &claudeReader{s: f.open(FormatClaude, session, line), kept: map[string]string{}, replies: map[string]int{}}
		f.claude[session] = r
		r.s.side = side
	}
	f.last = r.s
	if _, again := r.kept[id]; again {
		r.s.lose("repeated lines")
		return nil
	}
	if known, ok := r.kept[parent]; ok {
		parent = known
	}
	var err error
	switch kind {
	case "user":
		err = r.user(&l, line, id, parent)
	case "assistant":
		err = r.reply(&l, line, id, parent)
	default:
		if l.text("subtype") == "compact_boundary" {
			r.keptFirst = keptSegment(o)
		} else {
			r.s.lose(kind + " lines")
		}
		r.stand(id, parent)
	}
	f.claudeBy[id] = r
	return errors.Join(err, l.err)
}

// keptSegment is the first line that a compaction keeps; empty for none.
func keptSegment(o object) string {
	meta, _ := o.object("compactMetadata")
	segment, _ := meta.object("preservedSegment")
	head, _, _ := segment.str("headUuid")
	return head
}

// stand lets an entry stand for a line.
func (r *claudeReader) stand(line, entry string) {
	if line != "" {
		r.kept[line] = entry
	}
}

// put adds an entry below its parent.
func (r *claudeReader) put(e Entry, parent string) string {
	e.Parent = parent
	r.s.add(e, false)
	return e.ID
}

// user reads a message, with the results in it as entries of their own.
func (r *claudeReader) user(l *fields, line int, id, parent string) error {
	m, err := l.o.mustObject("message")
	if err != nil {
		return err
	}
	if kindOf(l.o["toolUseResult"]) != 'n' {
		r.s.lose("details of results")
	}
	if l.flag("isCompactSummary") {
		parts, err := content(m, claudePart)
		first, ok := r.s.ids[cmp.Or(r.kept[r.keptFirst], r.keptFirst)]
		if !ok {
			first = -1
		}
		summary := events.Message{Parts: parts}
		r.stand(id, r.put(Entry{Kind: EntryCompaction, Line: line, ID: id, Compaction: Compaction{Summary: summary.Text(), FirstKept: first}}, parent))
		r.keptFirst = ""
		return err
	}
	if kindOf(m["content"]) == '"' {
		m["content"] = []byte(`[{"type":"text","text":` + string(m["content"]) + `}]`)
	}
	all, err := m.list("content")
	if err != nil {
		return errors.New("content: neither a string nor an array")
	}
	message := Entry{Kind: EntryUser, Line: line, ID: id, Message: events.Message{Role: events.RoleUser}}
	for _, raw := range all {
		o, err := parseObject(raw)
		if err != nil {
			return err
		}
		if kind, _, _ := o.str("type"); kind == "tool_result" {
			e, err := claudeResult(o)
			if err != nil {
				return err
			}
			e.Line, e.ID = line, id+"/"+string(e.Result.Call)
			parent = r.put(e, parent)
			continue
		}
		p, err := readPart(raw, claudePart)
		if err != nil {
			return err
		}
		message.Message.Parts = append(message.Message.Parts, p)
	}
	if len(message.Message.Parts) > 0 {
		r.interrupt(&message.Message)
		parent = r.put(message, parent)
	}
	r.stand(id, parent)
	return nil
}

// interrupt ends the reply before a message as cancelled, where that message says so.
func (r *claudeReader) interrupt(m *events.Message) {
	if n := len(r.s.conv.Entries); n > 0 && strings.HasPrefix(m.Text(), "[Request interrupted by user") {
		if last := &r.s.conv.Entries[n-1]; last.Kind == EntryReply && last.Reply.Stop == events.StopUnknown {
			last.Reply.Stop = events.StopCancelled
		}
	}
}

func claudeResult(o object) (Entry, error) {
	f := fields{o: o}
	e := Entry{Kind: EntryResult, Result: Result{Call: events.CallID(f.text("tool_use_id")), Failed: f.flag("is_error")}}
	parts, err := content(o, claudePart)
	f.setError(err)
	e.Result.Text, e.Result.Attachments = splitResult(parts)
	return e, f.err
}

// reply reads one line of a reply. The lines of one reply name the same message; results may be between them.
func (r *claudeReader) reply(l *fields, line int, id, parent string) error {
	m, err := l.o.mustObject("message")
	if err != nil {
		return err
	}
	parts, err := content(m, claudePart)
	f := fields{o: m}
	f.setError(err)
	name := f.text("id")
	at, known := r.replies[name]
	if !known || name == "" {
		r.put(Entry{Kind: EntryReply, Line: line, ID: id}, parent)
		at = len(r.s.conv.Entries) - 1
		r.replies[name] = at
	}
	e := &r.s.conv.Entries[at]
	for _, p := range parts {
		r.s.extend(at, p)
	}
	e.Reply.Model, e.Reply.Stop = f.text("model"), claudeStop(f.text("stop_reason"))
	if l.flag("isApiErrorMessage") {
		e.Reply.Stop, e.Reply.Error = events.StopProviderError, (events.Message{Parts: parts}).Text()
	}
	usage, err := m.object("usage")
	f.setError(err)
	u := fields{o: usage}
	e.Reply.Usage = events.Usage{
		Input: u.count("input_tokens"), Output: u.count("output_tokens"),
		CacheRead: u.count("cache_read_input_tokens"), CacheWrite: u.count("cache_creation_input_tokens"),
	}
	f.setError(u.err)
	r.stand(id, e.ID)
	return f.err
}

func claudeStop(reason string) events.StopReason {
	switch reason {
	case "end_turn", "stop_sequence":
		return events.StopEnd
	case "tool_use":
		return events.StopToolUse
	case "max_tokens":
		return events.StopOutputLimit
	case "model_context_window_exceeded":
		return events.StopContextOverflow
	case "refusal":
		return events.StopContentFilter
	default:
		return events.StopUnknown
	}
}

// claudePart reads a block of the Messages API.
func claudePart(kind string, o object) (events.Part, error) {
	f := fields{o: o}
	switch kind {
	case "text":
		return textAt(o, "text")
	case "thinking", "redacted_thinking":
		p := events.Part{Kind: events.PartReasoning, Text: f.text("thinking"), Meta: o.pick("signature", "data")}
		return p, f.err
	case "tool_use":
		name, err := o.must("name")
		p := events.Part{Kind: events.PartToolCall, Call: events.CallID(f.text("id")), Tool: name}
		if kindOf(o["input"]) != 'n' {
			p.Args = compact(o["input"])
		}
		return p, errors.Join(err, f.err)
	case "image", "document":
		source, err := o.object("source")
		s := fields{o: source}
		p := events.Part{Kind: events.PartAttachment, MediaType: s.text("media_type"), Text: cmp.Or(s.text("data"), s.text("url"))}
		if p.MediaType == "" && strings.HasPrefix(p.Text, "http") {
			p.MediaType = kind + "/*"
		}
		if p.MediaType == "" || p.Text == "" {
			return events.Part{}, err // a file of the provider
		}
		return p, errors.Join(err, s.err)
	}
	return events.Part{}, nil
}
