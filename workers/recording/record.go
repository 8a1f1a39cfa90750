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

// record is a whole record.
type record struct {
	Session struct {
		ID      *string           `json:"session-id"`
		Entries []json.RawMessage `json:"entries"`
	} `json:"session"`
}

// recordEntry is an entry of any type.
type recordEntry struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Parent       string          `json:"parent-id"`
	Message      string          `json:"message-id"`
	EventType    string          `json:"event-type"`
	Content      json.RawMessage `json:"content"`
	Plugin       string          `json:"plugin"`
	Stop         string          `json:"stop-reason"`
	StopDetail   string          `json:"stop-detail"`
	Model        string          `json:"model-id"`
	Provider     string          `json:"model-provider"`
	Usage        usage           `json:"token-usage"`
	ProviderData string          `json:"provider-data"`
	Call         events.CallID   `json:"call-id"`
	Name         string          `json:"name"`
	Arguments    *string         `json:"arguments"`
	Input        json.RawMessage `json:"input"`
	Position     *count          `json:"position"`
	Tool         string          `json:"tool"`
	Outcome      events.Outcome  `json:"outcome"`
	Output       string          `json:"output"`
	Failed       bool            `json:"is-error"`
	Attachments  json.RawMessage `json:"attachments"`
	Data         json.RawMessage `json:"data"`
}

// recordBlock is a part of a content.
type recordBlock struct {
	Type         string `json:"type"`
	Text         string `json:"text"`
	MediaType    string `json:"media-type"`
	ProviderData string `json:"provider-data"`
}

// recordReader reads the entries of one record.
type recordReader struct {
	s     *script
	kept  map[string]string // the entry that stands for each id, for parents
	last  string            // id of the newest entry
	reply int               // index of the reply whose parts follow; -1 for none
}

// addRecord reads a line with a whole record.
func (f *file) addRecord(line int, raw []byte) error {
	c, err := into[record](raw)
	switch {
	case err != nil:
		return err
	case c.Session.ID == nil:
		return errors.New("session: no session-id")
	case c.Session.Entries == nil:
		return errors.New("session: no entries")
	}
	r := &recordReader{s: f.open(FormatRecord, *c.Session.ID, line), kept: make(map[string]string), reply: -1}
	for i, raw := range c.Session.Entries {
		one, err := into[recordEntry](raw)
		if err == nil {
			err = r.entry(line, &one)
		}
		if err != nil {
			return fmt.Errorf("session: entries[%d]: %w", i, err)
		}
	}
	return nil
}

func (r *recordReader) entry(line int, from *recordEntry) (err error) {
	e := Entry{Line: line, ID: from.ID}
	group := from.ID
	switch from.Type {
	case "reasoning", "tool-call":
		return r.part(from)
	case "user":
		e.Kind, e.Message.Role = EntryUser, events.RoleUser
		e.Message.Parts, err = recordParts(from.Content)
		if from.Plugin == "compaction" {
			e.Kind, e.Compaction = EntryCompaction, Compaction{Summary: e.Message.Text(), FirstKept: -1}
		}
	case "system-event":
		if from.EventType != "message.system" {
			r.kept[from.ID] = cmp.Or(r.kept[from.Parent], from.Parent) // stands for the entry that is not read
			return nil
		}
		data, _ := into[object](from.Data)
		e.Kind, e.Message.Role = EntrySystem, events.RoleSystem
		e.Message.Parts, err = recordParts(data["content"])
	case "assistant":
		e.Kind, e.Reply = EntryReply, Reply{
			Stop: cmp.Or(events.StopReason(from.Stop), events.StopEnd), Error: from.StopDetail, Model: from.Model, Provider: from.Provider, Usage: from.Usage.events(),
		}
		e.Reply.Parts, err = recordParts(from.Content)
	case "tool-result":
		group = from.Message
		if from.Outcome == events.OutcomeCancelled && turn.IsNoResultText(from.Output) {
			if _, known := r.kept[group]; !known {
				r.kept[group] = r.last
			}
			return nil
		}
		e.Kind, e.Result = EntryResult, Result{Call: from.Call, Tool: from.Tool, Text: from.Output, Failed: from.Failed}
		e.Result.Attachments, err = recordParts(from.Attachments)
	default:
		return fmt.Errorf("unknown type %q", from.Type)
	}
	if err == nil {
		r.place(&e, group, from.Parent)
	}
	return err
}

// place adds an entry below its parent. Entries of one message follow each other, and the newest stands for the message.
func (r *recordReader) place(e *Entry, group, parent string) {
	if before, same := r.kept[group]; same && e.Kind == EntryResult {
		parent = before
	} else if kept, ok := r.kept[parent]; ok {
		parent = kept
	}
	r.reply = -1
	if e.Kind == EntryReply {
		r.reply = len(r.s.conv.Entries)
		if e.Reply.Parts == nil {
			parent = cmp.Or(parent, r.last) // a reply without content has no place of its own
		}
	}
	e.Parent = parent
	r.s.add(*e)
	r.kept[group], r.last = e.ID, e.ID
}

// part reads reasoning or a call, and puts it at its position among the parts of its reply.
func (r *recordReader) part(from *recordEntry) error {
	p := events.Part{Kind: events.PartReasoning, Text: textOf(from.Content), Meta: bytesOf(from.ProviderData)}
	if from.Type == "tool-call" {
		p = events.Part{Kind: events.PartToolCall, Call: from.Call, Tool: from.Name, Args: argsOf(from.Input), Meta: p.Meta}
		if from.Arguments != nil {
			p.Args = bytesOf(*from.Arguments)
		}
		if p.Tool == "" {
			return errors.New("no name")
		}
	}
	if r.reply < 0 {
		return fmt.Errorf("a %s without a reply before it", from.Type)
	}
	parts := &r.s.conv.Entries[r.reply].Reply.Parts
	at := len(*parts)
	if from.Position != nil && *from.Position >= 0 {
		at = min(at, int(*from.Position))
	}
	*parts = slices.Insert(*parts, at, p)
	r.s.called(r.reply, p)
	return nil
}

// recordParts reads a content: a text, or blocks.
func recordParts(raw json.RawMessage) (parts []events.Part, err error) {
	if text := textOf(raw); text != "" {
		return []events.Part{textPart(text)}, nil
	}
	var blocks []recordBlock
	if kindOf(raw) != '"' {
		blocks, err = into[[]recordBlock](raw)
	}
	for _, b := range blocks {
		p := textPart(b.Text)
		if b.Type != "text" {
			p = events.Part{Kind: events.PartAttachment, Text: b.Text, MediaType: b.MediaType, Meta: bytesOf(b.ProviderData)}
		}
		parts = append(parts, p)
	}
	return parts, err
}
