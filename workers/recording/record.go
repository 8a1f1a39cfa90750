package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// FormatRecord is the record that audits exchange, as package exchange writes it: one record in each line.
const FormatRecord Format = "record"

// recordReader reads the entries of one record.
type recordReader struct {
	s     *script
	kept  map[string]string // the entry that stands for each id, for parents
	last  string            // id of the newest entry
	reply int               // index of the reply whose parts follow; -1 for none
}

// addRecord reads a line with a whole record.
func (f *file) addRecord(line int, o object) error {
	session, err := o.object("session")
	if err != nil {
		return err
	}
	id, err := session.must("session-id")
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if kindOf(session["entries"]) != '[' {
		return errors.New("session: entries: not an array")
	}
	all, err := session.list("entries")
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	r := &recordReader{s: f.open(FormatRecord, id, line), kept: make(map[string]string), reply: -1}
	for i, raw := range all {
		if err := r.entry(line, raw); err != nil {
			return fmt.Errorf("session: entries[%d]: %w", i, err)
		}
	}
	return nil
}

func (r *recordReader) entry(line int, raw json.RawMessage) error {
	o, err := parseObject(raw)
	if err != nil {
		return err
	}
	kind, err := o.must("type")
	if err != nil {
		return err
	}
	switch kind {
	case "reasoning", "tool-call":
		return r.part(kind, o)
	case "user", "assistant", "tool-result":
	case "system-event":
		if name, _, err := o.str("event-type"); err != nil || name != "message.system" {
			return errors.Join(err, r.skip(o))
		}
	default:
		return fmt.Errorf("unknown type %q", kind)
	}
	f := fields{o: o}
	e := Entry{Line: line, ID: f.text("id")}
	group := e.ID
	if kind == "tool-result" {
		group = f.text("message-id")
	}
	switch kind {
	case "user":
		e.Kind, e.Message.Role = EntryUser, events.RoleUser
		e.Message.Parts = r.blocks(&f, "content")
		if f.text("plugin") == "compaction" {
			e.Kind, e.Compaction = EntryCompaction, Compaction{Summary: e.Message.Text(), FirstKept: -1}
		}
	case "system-event":
		data, err := o.object("data")
		f.setError(err)
		inner := fields{o: data}
		e.Kind, e.Message.Role = EntrySystem, events.RoleSystem
		e.Message.Parts = r.blocks(&inner, "content")
		f.setError(inner.err)
	case "assistant":
		e.Kind = EntryReply
		e.Reply = r.replyOf(&f)
	case "tool-result":
		if f.text("outcome") == string(events.OutcomeCancelled) && turn.IsNoResultText(f.text("output")) {
			if _, known := r.kept[group]; !known {
				r.kept[group] = r.last
			}
			return f.err
		}
		e.Kind = EntryResult
		e.Result = Result{Call: events.CallID(f.text("call-id")), Tool: f.text("tool"), Text: f.text("output"), Failed: f.flag("is-error")}
		e.Result.Attachments = r.blocks(&f, "attachments")
	}
	if f.err != nil {
		return f.err
	}
	r.place(&e, group, f.text("parent-id"))
	return f.err
}

// skip lets the parent of an entry that is not read stand for it.
func (r *recordReader) skip(o object) error {
	f := fields{o: o}
	if id, parent := f.text("id"), f.text("parent-id"); id != "" {
		r.kept[id] = cmp.Or(r.kept[parent], parent)
	}
	return f.err
}

// place adds an entry below its parent. Entries of one message follow each other, and the newest stands for the message.
func (r *recordReader) place(e *Entry, group, parent string) {
	if before, same := r.kept[group]; same && e.Kind == EntryResult {
		parent = before
	} else if kept, ok := r.kept[parent]; ok {
		parent = kept
	}
	if parent == "" && e.Kind == EntryReply && e.Reply.Parts == nil {
		parent = r.last // a reply without content has no place of its own
	}
	e.Parent = parent
	r.reply = -1
	if e.Kind == EntryReply {
		r.reply = len(r.s.conv.Entries)
	}
	r.s.add(*e, false)
	r.kept[group], r.last = e.ID, e.ID
}

// replyOf reads a reply. Its reasoning and calls follow as entries of their own.
func (r *recordReader) replyOf(f *fields) Reply {
	reply := Reply{
		Stop: events.StopReason(f.text("stop-reason")), Error: f.text("stop-detail"), Model: f.text("model-id"), Provider: f.text("model-provider"),
	}
	if reply.Stop == "" {
		reply.Stop = events.StopEnd
	}
	usage, err := f.o.object("token-usage")
	f.setError(err)
	u := fields{o: usage}
	cached := u.count("cached")
	reply.Usage = events.Usage{Input: u.count("input") - cached, Output: u.count("output"), CacheRead: cached, Reasoning: u.count("reasoning")}
	f.setError(u.err)
	reply.Parts = r.blocks(f, "content")
	return reply
}

// part reads reasoning or a call, and puts it at its position among the parts of its reply.
func (r *recordReader) part(kind string, o object) error {
	f := fields{o: o}
	p := events.Part{Kind: events.PartReasoning, Text: f.text("content"), Meta: bytesOf(f.text("provider-data"))}
	if kind == "tool-call" {
		p = events.Part{Kind: events.PartToolCall, Call: events.CallID(f.text("call-id")), Tool: f.text("name"), Meta: p.Meta}
		if _, ok := o["arguments"]; ok {
			p.Args = bytesOf(f.text("arguments"))
		} else if kindOf(o["input"]) != 'n' {
			p.Args = compact(o["input"])
		}
		f.err = nil
		if name, _, err := o.str("name"); err != nil || name == "" {
			return errors.New("no name")
		}
	}
	if f.err != nil {
		return f.err
	}
	if r.reply < 0 {
		return fmt.Errorf("a %s without a reply before it", kind)
	}
	parts := &r.s.conv.Entries[r.reply].Reply.Parts
	at := int(f.count("position"))
	if kindOf(o["position"]) == 'n' || at < 0 || at > len(*parts) {
		at = len(*parts)
	}
	if *parts = slices.Insert(*parts, at, p); f.err == nil && kind == "tool-call" {
		r.s.open(r.reply, p)
	}
	return f.err
}

// blocks reads a content: a text, or blocks.
func (r *recordReader) blocks(f *fields, key string) []events.Part {
	if kindOf(f.o[key]) == '"' {
		if text := f.text(key); text != "" {
			return []events.Part{textPart(text)}
		}
		return nil
	}
	all, err := f.o.list(key)
	f.setError(err)
	var parts []events.Part
	for i, raw := range all {
		o, err := parseObject(raw)
		if err != nil {
			f.setError(fmt.Errorf("%s[%d]: %w", key, i, err))
			return nil
		}
		b := fields{o: o}
		p := textPart(b.text("text"))
		if b.text("type") != "text" {
			p = events.Part{Kind: events.PartAttachment, Text: p.Text, MediaType: b.text("media-type"), Meta: bytesOf(b.text("provider-data"))}
		}
		f.setError(b.err)
		parts = append(parts, p)
	}
	return parts
}
