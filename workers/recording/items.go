package recording

import (
	"cmp"
	"encoding/json"
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

// add appends an entry below the newest one.
func (r *itemReader) add(e Entry) {
	e.ID, e.Parent = fmt.Sprint(len(r.s.conv.Entries)), r.parent
	r.s.add(e, false)
	r.parent = e.ID
}

// itemsOf are the items in a line; nil where it has none. open is whether items came before.
func itemsOf(o object, open bool) ([]json.RawMessage, bool) {
	var all []json.RawMessage
	if kindOf(o["type"]) != 'n' {
		return nil, isItem(o, open)
	}
	if kindOf(o["input"]) == '"' && kindOf(o["model"]) == '"' {
		all = append(all, json.RawMessage(`{"role":"user","content":`+string(o["input"])+`}`))
	}
	for _, key := range []string{"input", "output", "data"} { // of a request, a response and a page of items
		if kindOf(o[key]) == '[' {
			list, _ := o.list(key)
			all = slices.Concat([]json.RawMessage{}, all, list) // none is a list, too
		}
	}
	return all, all != nil || isItem(o, open)
}

func isItem(o object, open bool) bool {
	kind, typed, err := o.str("type")
	_, speaks, _ := o.str("role")
	switch {
	case err != nil:
		return false
	case !typed || kind == "message":
		return speaks && kindOf(o["content"]) != 'n'
	case kind == "compaction":
		return kindOf(o["encrypted_content"]) == '"'
	case open || kind == "item_reference" || strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_output"):
		return true
	}
	return kind == "reasoning" && (kindOf(o["summary"]) == '[' || kindOf(o["content"]) == '[')
}

// addItems reads a line that is a list of items, or has one.
func (f *file) addItems(line int, o object, all []json.RawMessage) error {
	if f.items == nil {
		f.items = &itemReader{s: f.open(FormatResponses, "", line), reply: -1}
		f.last = f.items.s
	}
	if all == nil {
		return f.items.item(line, o)
	}
	if text, ok, _ := o.str("instructions"); ok && text != f.items.instructions {
		f.items.instructions = text
		f.items.add(Entry{Kind: EntrySystem, Line: line, Message: events.Message{Role: events.RoleSystem, Parts: []events.Part{textPart(text)}}})
	}
	for i, raw := range all {
		one, err := parseObject(raw)
		if err == nil {
			err = f.items.item(line, one)
		}
		if err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	if kindOf(o["output"]) == '[' {
		model, _, _ := o.str("model")
		f.items.stopped(o, model)
		f.items.ended(o, "usage", model)
		f.items.reply = -1
	}
	return nil
}

// stopped notes the model of a response, and how one ended that did not complete.
func (r *itemReader) stopped(o object, model string) {
	status, _, _ := o.str("status")
	if r.reply < 0 {
		return
	}
	reply := &r.s.conv.Entries[r.reply].Reply
	reply.Model = cmp.Or(model, reply.Model)
	switch status {
	case "incomplete":
		details, _ := o.object("incomplete_details")
		reason, _, _ := details.str("reason")
		reply.Stop = events.StopOutputLimit
		if reason == "content_filter" {
			reply.Stop = events.StopContentFilter
		}
	case "cancelled":
		reply.Stop = events.StopCancelled
	case "failed":
		fault, _ := o.object("error")
		reply.Error, _, _ = fault.str("message")
		reply.Stop = events.StopProviderError
	}
}

// ended completes the open reply with what its response says.
func (r *itemReader) ended(o object, key, model string) {
	usage, _ := o.object(key)
	if r.reply < 0 || usage == nil {
		return
	}
	u := fields{o: usage}
	cached := u.count("cached_input_tokens")
	if details, _ := usage.object("input_tokens_details"); details != nil {
		d := fields{o: details}
		cached = d.count("cached_tokens")
	}
	reply := &r.s.conv.Entries[r.reply].Reply
	reply.Usage = events.Usage{Input: max(u.count("input_tokens")-cached, 0), Output: u.count("output_tokens"), CacheRead: cached, Reasoning: u.count("reasoning_output_tokens")}
	reply.Model = cmp.Or(model, reply.Model)
	r.reply = -1
}

func (r *itemReader) item(line int, o object) error {
	kind, typed, err := o.str("type")
	if err != nil {
		return err
	}
	if !typed {
		kind = "message"
	}
	if err := r.read(line, o, kind); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

func (r *itemReader) read(line int, o object, kind string) error {
	f := fields{o: o}
	switch {
	case kind == "message":
		return r.message(line, o)
	case kind == "reasoning":
		p := events.Part{Kind: events.PartReasoning, Text: joined(&f, "summary", "content"), Meta: o.pick("id", "encrypted_content")}
		r.part(line, p)
	case strings.HasSuffix(kind, "_output"):
		call := f.text("call_id")
		e := Entry{Kind: EntryResult, Line: line, Result: Result{Call: events.CallID(call)}}
		parts, failed, err := outputParts(o["output"])
		f.setError(err)
		e.Result.Failed = failed
		e.Result.Text, e.Result.Attachments = splitResult(parts)
		r.reply = -1
		r.add(e)
	case strings.HasSuffix(kind, "_call"):
		r.call(line, &f, kind)
	default:
		r.s.lose(kind + " items")
	}
	return f.err
}

func (r *itemReader) message(line int, o object) error {
	role, err := o.must("role")
	if err != nil {
		return err
	}
	parts, err := content(o, itemPart)
	if err != nil {
		return err
	}
	switch role {
	case "assistant":
		for _, p := range parts {
			r.part(line, p)
		}
		return nil
	case "user":
		r.add(Entry{Kind: EntryUser, Line: line, Message: events.Message{Role: events.RoleUser, Parts: parts}})
	case "system", "developer":
		r.add(Entry{Kind: EntrySystem, Line: line, Message: events.Message{Role: events.RoleSystem, Parts: parts}})
	default:
		return fmt.Errorf("unknown role %q", role)
	}
	r.reply = -1
	return nil
}

// call reads a call. The provider ran those without an id of their own, and told their results in other items.
func (r *itemReader) call(line int, f *fields, kind string) {
	id := cmp.Or(f.text("call_id"), f.text("id"))
	p := events.Part{Kind: events.PartToolCall, Call: events.CallID(id), Tool: cmp.Or(f.text("name"), strings.TrimSuffix(kind, "_call"))}
	switch {
	case kindOf(f.o["arguments"]) == '"':
		p.Args = bytesOf(f.text("arguments"))
	case kindOf(f.o["input"]) == '"':
		p.Args = bytesOf(f.text("input"))
	default:
		for _, key := range []string{"arguments", "input", "action", "operation"} {
			if kindOf(f.o[key]) == '{' {
				p.Args = compact(f.o[key])
			}
		}
	}
	if kind != "mcp_call" && kindOf(f.o["call_id"]) == 'n' {
		r.s.lose(kind + " items")
		return
	}
	r.part(line, p)
	if kind == "mcp_call" {
		failed := kindOf(f.o["error"]) != 'n'
		text := f.text("output")
		if failed && text == "" {
			text = strings.Trim(string(compact(f.o["error"])), `"`)
		}
		r.add(Entry{Kind: EntryResult, Line: line, Result: Result{Call: p.Call, Text: text, Failed: failed}})
		r.reply = -1
	}
}

// part adds a part to the open reply, or opens one.
func (r *itemReader) part(line int, p events.Part) {
	if r.reply < 0 {
		r.reply = len(r.s.conv.Entries)
		r.add(Entry{Kind: EntryReply, Line: line, Reply: Reply{Stop: events.StopEnd, Model: r.model, Provider: r.provider}})
	}
	r.s.extend(r.reply, p)
	if p.Kind == events.PartToolCall {
		r.s.conv.Entries[r.reply].Reply.Stop = events.StopToolUse
	}
}

// outputParts reads a result: a text, a list of parts, or an object with a content, which may say that the call failed.
func outputParts(raw json.RawMessage) (parts []events.Part, failed bool, err error) {
	o := object{"content": raw}
	if kindOf(raw) == '{' {
		if o, err = parseObject(raw); err != nil {
			return nil, false, err
		}
		if failed = kindOf(o["success"]) == 'f'; kindOf(o["content"]) == 'n' { // it may be a part itself
			o = object{"content": slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))}
		}
	}
	parts, err = content(o, itemPart)
	if kind := kindOf(raw); err != nil && (kind == '{' || kind == '[') || len(parts) == 1 && kind == '{' && parts[0].MediaType == "" && parts[0].Kind == events.PartAttachment {
		return []events.Part{textPart(string(compact(raw)))}, failed, nil // what a program of the provider printed
	}
	return parts, failed, err
}

// itemPart reads a part of an item's content.
func itemPart(kind string, o object) (events.Part, error) {
	switch kind {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		return textAt(o, "text")
	case "refusal":
		return textAt(o, "refusal")
	case "input_image", "computer_screenshot":
		if kindOf(o["image_url"]) == '"' {
			return chatImage(o)
		}
	case "input_audio":
		return chatAudio(o)
	}
	return events.Part{}, nil
}

// joined are the texts of lists of parts.
func joined(f *fields, keys ...string) string {
	var texts []string
	for _, key := range keys {
		parts, err := content(object{"content": f.o[key]}, itemPart)
		f.setError(err)
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
