package recording

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// isPi reports whether a line is an entry of pi, of a type that pi has. Those of other types belong to a file with a header.
func isPi(o object) bool {
	kind, _, _ := o.str("type")
	switch kind {
	case "message":
		return kindOf(o["role"]) == 'n'
	case "compaction":
		return kindOf(o["encrypted_content"]) == 'n'
	case "session", "model_change", "thinking_level_change", "branch_summary", "custom", "custom_message", "label", "session_info", "usage", "context_edit":
		return !isCodex(o) && !isClaude(o)
	}
	return false
}

// addPi reads one entry of a pi file. A header opens a conversation, and so does an entry before any header.
func (f *file) addPi(line int, raw []byte, o object, kind string) error {
	if kind == "session" {
		return f.openPi(line, o)
	}
	if f.pi == nil {
		f.pi = f.open(FormatPi, "", line)
	}
	f.last = f.pi
	e, err := f.pi.piEntry(kind, o)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if e.Kind == EntryShell || e.Kind == EntryOther {
		e.Raw = compact(raw)
	}
	e.Line = line
	f.pi.add(e, false)
	return nil
}

// openPi reads a header. In version 1 it has the first settings.
func (f *file) openPi(line int, o object) error {
	id, err := o.identifier("id")
	if err != nil {
		return err
	}
	header := fields{o: o}
	c := Config{
		Model: header.text("modelId"), Provider: header.text("provider"),
		Thinking: header.text("thinkingLevel"),
	}
	if header.err != nil {
		return header.err
	}
	f.pi = f.open(FormatPi, id, line)
	f.pi.headed, f.last = true, f.pi
	f.pi.add(Entry{Kind: EntryConfig, Line: line, Config: c}, false)
	return nil
}

func (s *script) piEntry(kind string, o object) (Entry, error) {
	f := fields{o: o}
	e := Entry{ID: f.text("id"), Parent: f.text("parentId")}
	badID := f.err
	f.err = nil
	switch kind {
	case "message":
		m, err := o.object("message")
		f.setError(err)
		if err == nil {
			f.setError(e.piMessage(m))
		}
	case "model_change":
		e.Kind = EntryConfig
		e.Config = Config{Model: f.text("modelId"), Provider: f.text("provider")}
	case "thinking_level_change":
		e.Kind = EntryConfig
		e.Config = Config{Thinking: f.text("thinkingLevel")}
	case "compaction":
		e.Kind = EntryCompaction
		e.Compaction = Compaction{
			Summary: f.text("summary"), TokensBefore: f.count("tokensBefore"), FirstKept: s.firstKept(&f, e.Parent),
		}
	case "custom_message":
		e.Kind, e.Message.Role = EntryContext, events.RoleUser
		var err error
		e.Message.Parts, err = content(o, piPart)
		f.setError(err)
	case "branch_summary":
		e.Kind = EntryContext
		e.Message = events.Message{Role: events.RoleUser, Parts: []events.Part{textPart("Summary of a branch that was left:\n\n" + f.text("summary"))}}
	default:
		if kind == "context_edit" {
			s.lose("effects of context edits")
		}
		e.Kind, e.Type = EntryOther, kind
	}
	if e.Kind != EntryOther { // an unknown entry may have any form
		f.setError(badID)
	}
	return e, f.err
}

// firstKept finds the first entry that a compaction kept. Version 1 counts the lines of the file from the header, 0.
// So does Entries.
func (s *script) firstKept(f *fields, parent string) int {
	if tail, err := f.o.list("retainedTail"); err != nil || len(tail) > 0 {
		f.setError(err)
		return s.messagesBefore(parent, len(tail))
	}
	if id := f.text("firstKeptEntryId"); id != "" {
		if i, ok := s.ids[id]; ok {
			return i
		}
		return -1
	}
	n, ok, err := f.o.number("firstKeptEntryIndex")
	f.setError(err)
	if !ok || n < 0 || n >= int64(len(s.conv.Entries)) || n == 0 && s.headed {
		return -1
	}
	return int(n)
}

// messagesBefore is the first of the n newest messages up to an entry, which a compaction copied into itself.
func (s *script) messagesBefore(id string, n int) int {
	seen := make(map[int]bool) // parents may go round
	for i, ok := s.ids[id]; ok && !seen[i]; i, ok = s.ids[s.conv.Entries[i].Parent] {
		seen[i] = true
		switch s.conv.Entries[i].Kind {
		case EntryConfig, EntryCompaction, EntryOther:
		case EntrySystem, EntryUser, EntryContext, EntryReply, EntryResult, EntryShell:
			if n--; n == 0 {
				return i
			}
		}
	}
	s.lose("messages that a compaction retained")
	return -1
}

// piMessage reads the message of an entry.
func (e *Entry) piMessage(o object) error {
	if o == nil {
		return errors.New("no message")
	}
	role, err := o.must("role")
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	switch role {
	case "user":
		e.Kind = EntryUser
		e.Message.Role = events.RoleUser
		e.Message.Parts, err = content(o, piPart)
	case "assistant":
		e.Kind = EntryReply
		e.Reply, err = piReply(o)
	case "toolResult":
		e.Kind = EntryResult
		e.Result, err = piResult(o)
	case "custom", "hookMessage":
		e.Kind, e.Message.Role = EntryContext, events.RoleUser
		e.Message.Parts, err = content(o, piPart)
	case "bashExecution":
		err = e.piShell(o)
	default:
		e.Kind, e.Type = EntryOther, role
	}
	return err
}

// piShell reads a command that the user ran. The model sees it, unless the user left it out.
func (e *Entry) piShell(o object) error {
	f := fields{o: o}
	e.Kind, e.Type = EntryShell, "bashExecution"
	if f.flag("excludeFromContext") {
		return f.err
	}
	e.Kind, e.Type, e.Message.Role = EntryContext, "", events.RoleUser
	text := "The user ran `" + f.text("command") + "`:\n\n" + f.text("output")
	switch code := f.count("exitCode"); {
	case f.flag("cancelled"):
		text += "\n\nThe command was cancelled."
	case code != 0:
		text += fmt.Sprintf("\n\nThe command exited with code %d.", code)
	}
	e.Message.Parts = []events.Part{textPart(text)}
	return f.err
}

func piReply(o object) (Reply, error) {
	f := fields{o: o}
	r := Reply{
		Stop: piStop(f.text("stopReason")), Error: f.text("errorMessage"),
		Model: f.text("model"), Provider: f.text("provider"),
	}
	usage, err := o.object("usage")
	f.setError(err)
	u := fields{o: usage}
	r.Usage = events.Usage{
		Input: u.count("input"), Output: u.count("output"),
		CacheRead: u.count("cacheRead"), CacheWrite: u.count("cacheWrite"),
	}
	if u.err != nil {
		f.setError(fmt.Errorf("usage: %w", u.err))
	}
	r.Parts, err = content(o, piReplyPart)
	f.setError(err)
	return r, f.err
}

func piStop(reason string) events.StopReason {
	switch reason {
	case "stop":
		return events.StopEnd
	case "length":
		return events.StopOutputLimit
	case "toolUse":
		return events.StopToolUse
	case "error":
		return events.StopProviderError
	case "aborted":
		return events.StopCancelled
	default:
		return events.StopUnknown
	}
}

func piResult(o object) (Result, error) {
	id, err := o.must("toolCallId")
	if err != nil {
		return Result{}, err
	}
	f := fields{o: o}
	r := Result{Call: events.CallID(id), Tool: f.text("toolName"), Failed: f.flag("isError")}
	parts, err := content(o, piPart)
	f.setError(err)
	r.Text, r.Attachments = splitResult(parts)
	return r, f.err
}

// piPart reads a part of a user message or a result.
func piPart(kind string, o object) (events.Part, error) {
	switch kind {
	case "text":
		return textAt(o, "text")
	case "image":
		data, err := o.must("data")
		if err != nil {
			return events.Part{}, err
		}
		media, err := o.must("mimeType")
		return events.Part{Kind: events.PartAttachment, MediaType: media, Text: data}, err
	default:
		return events.Part{}, nil
	}
}

// piReplyPart reads a part of a reply.
func piReplyPart(kind string, o object) (events.Part, error) {
	switch kind {
	case "thinking":
		text, err := o.must("thinking")
		return events.Part{Kind: events.PartReasoning, Text: text, Meta: o.pick("thinkingSignature", "redacted")}, err
	case "toolCall":
		return piCall(o)
	default:
		return piPart(kind, o)
	}
}

func piCall(o object) (events.Part, error) {
	f := fields{o: o}
	p := events.Part{Kind: events.PartToolCall, Call: events.CallID(f.text("id")), Meta: o.pick("thoughtSignature")}
	name, err := o.must("name")
	f.setError(err)
	p.Tool = name
	if kindOf(o["arguments"]) != 'n' {
		p.Args = compact(o["arguments"])
	}
	return p, f.err
}
