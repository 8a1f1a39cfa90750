package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// FormatResponses is a list of items of OpenAI's Responses API: one item in each line, or a list, a response or a request in a line.
const FormatResponses Format = "responses"

// itemReader reads items. Those of a reply follow each other.
type itemReader struct {
	s               *script
	reply           int // index of the open reply; -1 for none
	model, provider string
	instructions    string // that the model had last
	parent          string // ID of the newest entry
}

// item is one of any type.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        json.RawMessage `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Action    json.RawMessage `json:"action"`
	Operation json.RawMessage `json:"operation"`
	Output    json.RawMessage `json:"output"`
	Error     json.RawMessage `json:"error"`
	Encrypted json.RawMessage `json:"encrypted_content"`
	Calls     json.RawMessage `json:"tool_calls"` // of the form of chats
}

// itemList is a response, a request, or a page of items.
type itemList struct {
	Instructions *string         `json:"instructions"`
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	Data         json.RawMessage `json:"data"`
	Status       string          `json:"status"`
	Incomplete   struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage *usage `json:"usage"`
}

// add appends an entry below the newest one. It ends the open reply, unless it has no more than settings.
func (r *itemReader) add(e Entry) {
	e.ID, e.Parent = fmt.Sprint(len(r.s.conv.Entries)), r.parent
	r.s.add(e)
	r.parent = e.ID
	if e.Kind != EntryConfig {
		r.reply = -1
	}
}

// isList reports whether a line is a response, a request or a page.
func isList(o object) bool {
	if kindOf(o["type"]) != 'n' {
		return false
	}
	asks := kindOf(o["input"]) == '"' && kindOf(o["model"]) == '"'
	return asks || kindOf(o["input"]) == '[' || kindOf(o["output"]) == '[' || kindOf(o["data"]) == '['
}

// isItem reports whether a line is an item. open is whether items came before.
func isItem(o object, open bool) bool {
	kind := textOf(o["type"])
	switch {
	case kind == "" || kind == "message":
		return kindOf(o["role"]) == '"' && kindOf(o["content"]) != 'n'
	case kind == "compaction":
		return kindOf(o["encrypted_content"]) == '"'
	case open || kind == "item_reference" || strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_output"):
		return true
	}
	return kind == "reasoning" && (kindOf(o["summary"]) == '[' || kindOf(o["content"]) == '[')
}

// addItems reads a line that is an item, or has a list of them.
func (f *file) addItems(line int, raw []byte, o object) error {
	if f.items == nil {
		f.items = &itemReader{s: f.open(FormatResponses, "", line), reply: -1}
		f.last = f.items.s
	}
	if !isList(o) {
		return f.items.item(line, raw)
	}
	l, err := into[itemList](raw)
	if err != nil {
		return err
	}
	return f.items.list(line, &l)
}

func (r *itemReader) list(line int, l *itemList) error {
	if text := l.Instructions; text != nil && *text != r.instructions {
		r.instructions = *text
		r.add(Entry{Kind: EntrySystem, Line: line, Message: events.Message{Role: events.RoleSystem, Parts: []events.Part{textPart(*text)}}})
	}
	if text := textOf(l.Input); text != "" {
		r.add(Entry{Kind: EntryUser, Line: line, Message: userText(text)})
	}
	for _, raw := range []json.RawMessage{l.Input, l.Output, l.Data} {
		if kindOf(raw) != '[' {
			continue
		}
		all, err := into[[]json.RawMessage](raw)
		for i := 0; err == nil && i < len(all); i++ {
			if err = r.item(line, all[i]); err != nil && len(r.s.conv.Entries) > 0 {
				r.s.conv.Lost["unreadable items"]++
				err = nil
			} else if err != nil {
				err = fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		if err != nil {
			return err
		}
	}
	if kindOf(l.Output) == '[' {
		r.stopped(l)
		r.ended(l.Usage)
		r.reply = -1
	}
	return nil
}

// stopped notes the model of a response, and how one ended that did not complete.
func (r *itemReader) stopped(l *itemList) {
	if r.reply < 0 {
		return
	}
	reply := &r.s.conv.Entries[r.reply].Reply
	reply.Model = cmp.Or(l.Model, reply.Model)
	switch l.Status {
	case "incomplete":
		reply.Stop = events.StopOutputLimit
		if l.Incomplete.Reason == "content_filter" {
			reply.Stop = events.StopContentFilter
		}
	case "cancelled":
		reply.Stop = events.StopCancelled
	case "failed":
		reply.Stop, reply.Error = events.StopProviderError, l.Error.Message
	}
}

// ended completes the open reply with what its response used.
func (r *itemReader) ended(u *usage) {
	if r.reply >= 0 && u != nil {
		r.s.conv.Entries[r.reply].Reply.Usage = u.events()
		r.reply = -1
	}
}

func (r *itemReader) item(line int, raw json.RawMessage) error {
	it, err := into[item](raw)
	kind := cmp.Or(it.Type, "message")
	switch {
	case err != nil:
	case kind == "message":
		err = r.message(line, &it)
	case kind == "reasoning":
		meta := object{"id": it.ID, "encrypted_content": it.Encrypted}.pick("id", "encrypted_content")
		r.part(line, events.Part{Kind: events.PartReasoning, Text: joined(it.Summary, it.Content), Meta: meta})
	case strings.HasSuffix(kind, "_output"):
		parts, failed := outputParts(it.Output)
		e := Entry{Kind: EntryResult, Line: line, Result: Result{Call: events.CallID(it.CallID), Failed: failed}}
		e.Result.Text, e.Result.Attachments = splitResult(parts)
		r.add(e)
	case kind == "mcp_call" || strings.HasSuffix(kind, "_call") && it.CallID != "":
		r.call(line, &it)
	default: // also calls that the provider ran, and whose results it told in other items
		r.s.conv.Lost[kind+" items"]++
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

func (r *itemReader) message(line int, it *item) error {
	parts, err := content(it.Content, false)
	if kindOf(it.Calls) == '[' {
		r.s.conv.Lost["calls in the form of chats"]++
	}
	switch it.Role {
	case "assistant":
		for _, p := range parts {
			r.part(line, p)
		}
	case "user":
		r.add(Entry{Kind: EntryUser, Line: line, Message: events.Message{Role: events.RoleUser, Parts: parts}})
	case "system", "developer":
		r.add(Entry{Kind: EntrySystem, Line: line, Message: events.Message{Role: events.RoleSystem, Parts: parts}})
	default:
		return fmt.Errorf("unknown role %q", it.Role)
	}
	return err
}

// call reads a call. One of a server that the provider called has its result, too.
func (r *itemReader) call(line int, it *item) {
	p := events.Part{
		Kind: events.PartToolCall, Call: events.CallID(cmp.Or(it.CallID, textOf(it.ID))), Tool: cmp.Or(it.Name, strings.TrimSuffix(it.Type, "_call")),
		Args: argsOf(it.Arguments, it.Input, it.Action, it.Operation),
	}
	r.part(line, p)
	if it.Type == "mcp_call" {
		failed := kindOf(it.Error) != 'n'
		text := textOf(it.Output)
		if failed {
			text = cmp.Or(text, string(argsOf(it.Error)))
		}
		r.add(Entry{Kind: EntryResult, Line: line, Result: Result{Call: p.Call, Text: text, Failed: failed}})
	}
}

// part adds a part to the open reply, or opens one.
func (r *itemReader) part(line int, p events.Part) {
	if r.reply < 0 {
		at := len(r.s.conv.Entries)
		r.add(Entry{Kind: EntryReply, Line: line, Reply: Reply{Stop: events.StopEnd, Model: r.model, Provider: r.provider}})
		r.reply = at
	}
	r.s.extend(r.reply, p)
	if p.Kind == events.PartToolCall {
		r.s.conv.Entries[r.reply].Reply.Stop = events.StopToolUse
	}
}

// outputParts reads a result: a text, a list of parts, a part, or an object with a content, which may say that the call failed. Anything else is
// what a program of the provider printed, and stays as it is.
func outputParts(raw json.RawMessage) (parts []events.Part, failed bool) {
	o, _ := into[object](raw)
	inner := raw
	if o != nil && kindOf(o["content"]) == 'n' {
		inner = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
	} else if o != nil {
		inner = o["content"]
	}
	failed = kindOf(o["success"]) == 'f'
	blocks, err := blocksOf(inner)
	for i := range blocks {
		p := blocks[i].part(false)
		if blocks[i].Type == "" || o != nil && p.Kind == events.PartAttachment && p.MediaType == "" {
			err = errors.New("no part")
		}
		parts = append(parts, p)
	}
	switch {
	case err != nil:
		return []events.Part{textPart(string(compact(raw)))}, failed
	case textOf(inner) != "":
		return []events.Part{textPart(textOf(inner))}, failed
	}
	return parts, failed
}

// joined are the texts of lists of parts.
func joined(lists ...json.RawMessage) string {
	var texts []string
	for _, raw := range lists {
		parts, _ := content(raw, false)
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
