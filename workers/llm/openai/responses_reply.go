package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Fields of an item that its endpoint wants back.
const (
	encryptedField = "encrypted_content" // the reasoning, which only the endpoint can read
	openField      = "open"              // true: the part's text is the reasoning itself, not a summary
	itemPrefix     = "item."             // of all others
)

// itemFields are those with a meaning of their own.
var itemFields = []string{"id", "type", "status", "role", "content", "summary", "name", "call_id", "arguments", encryptedField} //nolint:gochecknoglobals // a table that is only read

var opened = llm.Members{openField: json.RawMessage("true")} //nolint:gochecknoglobals // the fields of reasoning itself

// decodeResponse reads an event of a Responses stream, or a whole response.
func decodeResponse(e llm.ServerEvent) (u llm.Update, err error) {
	ev, name := e.Members, e.Type
	switch name {
	case "":
		if u.Unknown = ev.Label("object") != "response"; !u.Unknown {
			return response(ev, "response."+ev.Label("status"))
		}
	case "response.output_item.added", "response.output_item.done":
		u.Pieces = make([]llm.Piece, 1)
		u.Pieces[0], err = itemPiece(llm.MembersOf(ev["item"]), ev.Number("output_index"), name == "response.output_item.done")
	case "response.created", "response.completed", "response.incomplete", "response.failed", "response.done":
		r := llm.MembersOf(ev["response"])
		if r != nil && !llm.IsSet(r["usage"]) {
			r["usage"] = llm.UsageIn(e.Data)
		}
		u, err = response(r, name)
	default: // also starts and ends of parts, and future events, with any fields
		u.Pieces, err = said(ev, strings.TrimPrefix(name, "response."))
	}
	return u, err
}

// said are the pieces of a delta, or those of a whole text, of which they count what was not received before. There are none in
// other events.
func said(ev llm.Members, name string) (list []llm.Piece, err error) {
	raw := ev["delta"]
	name, whole := strings.CutSuffix(name, ".done")
	if whole {
		raw = slices.Concat(ev["text"], ev["refusal"], ev["arguments"]) // of which an event has one
	}
	name, delta := strings.CutSuffix(name, ".delta")
	p := llm.Piece{Kind: llm.KindOf(name), ID: ev.Label("item_id"), Item: true, Index: ev.Number("output_index"), Whole: whole, Refused: name == "refusal"}
	p.Paragraph = ev.Number("summary_index").Value()
	switch {
	case p.Kind == "", !whole && !delta, whole && !llm.IsSet(raw):
		return nil, nil
	case p.Kind == events.PartToolCall:
		p.Text, err = llm.ArgumentsOf(raw)
		return []llm.Piece{p}, err
	}
	if p.Kind == events.PartReasoning && name != "reasoning_summary_text" {
		p.Fields = opened
	}
	return llm.Fragments(p, raw)
}

// itemPiece is what the first event of an item says, or the last one. Items of other kinds, as those of server tools, are left out.
func itemPiece(i llm.Members, index *llm.Number, done bool) (p llm.Piece, err error) {
	if i == nil {
		return p, llm.Malformed("an event without its item")
	}
	p = llm.Piece{Kind: llm.KindOf(i.Label("type")), ID: i.Label("id"), Item: true, Index: index, Begin: !done, Done: done, Whole: done, Fields: llm.Members{}}
	p.Cut = done && i.Label("status") == "incomplete"
	switch {
	case p.Kind == events.PartToolCall:
		p.Call, p.Tool, p.Whole = events.CallID(i.Label("call_id")), i.Label("name"), true
		p.Text, err = llm.ArgumentsOf(i["arguments"])
	case !done:
	case p.Kind == events.PartText:
		p.Text, p.Refused, err = joined(p.Kind, i["content"], "")
	case p.Kind == events.PartReasoning:
		p.Text, _, err = joined(p.Kind, i["summary"], "\n\n")
		if content := i["content"]; p.Text == "" && err == nil && llm.IsSet(content) && string(content) != "[]" {
			p.Text, _, err = joined(p.Kind, content, "")
			p.Fields[openField] = opened[openField]
		}
		if encrypted := i.Label("encrypted_content"); encrypted != "" {
			p.Fields[encryptedField] = llm.Quote(encrypted)
		}
	}
	if done && p.Kind != "" {
		rest(i, p.Fields, itemPrefix, itemFields)
	}
	return p, err
}

// joined is the text of a list of pieces, and whether one of them is a refusal.
func joined(kind events.PartKind, list json.RawMessage, separator string) (text string, refused bool, err error) {
	pieces, err := llm.Fragments(llm.Piece{Kind: kind}, list)
	var texts []string
	for _, p := range pieces {
		if refused = refused || p.Refused; p.Kind == kind {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, separator), refused, err
}

// response is what an event says that has the response.
func response(r llm.Members, name string) (u llm.Update, err error) {
	if r == nil {
		return u, llm.Malformed("an event without its response")
	}
	u.Model, u.ID = r.Label("model"), r.Label("id")
	switch name {
	case "response.created":
		return u, nil
	case "response.done":
		name = "response." + r.Label("status")
	}
	u.Usage, u.Done, u.Whole = llm.CountsOf(r["usage"], true), true, true
	if u.Failure = llm.FailureIn(r); u.Failure == nil && (name == "response.failed" || r.Label("status") == "failed") {
		u.Failure = &llm.Failure{Message: "the endpoint says that it failed, and not why"}
	}
	if u.Failure != nil {
		return u, nil
	}
	reason := cmp.Or(llm.MembersOf(r["incomplete_details"]).Label("reason"), strings.TrimPrefix(name, "response."))
	u.End = &llm.End{Reason: reason, Detail: "incomplete: " + reason}
	var output []json.RawMessage
	err = llm.Decode(r["output"], &output)
	for n, raw := range output {
		index := llm.Number(n)
		p, failed := itemPiece(llm.MembersOf(raw), &index, true)
		u.Pieces, err = append(u.Pieces, p), cmp.Or(err, failed)
	}
	return u, err
}
