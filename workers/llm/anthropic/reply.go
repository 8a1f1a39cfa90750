package anthropic

import (
	"bytes"
	"cmp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

const redactedField = "redacted" // the data of a reasoning part in place of a text that the API withholds

// unsigned marks thinking, which some endpoints send without a signature and want back.
var unsigned = llm.Members{llm.SignatureField: llm.Quote("")} //nolint:gochecknoglobals // a table that is only read

// decode reads an event of a stream, or a whole message.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	ev := e.Members
	index := cmp.Or(ev.Number("index"), new(llm.Number))
	switch e.Type {
	case "":
		u.Unknown, err = true, llm.Malformed("an event without a type")
	case "message":
		return whole(ev)
	case "message_start":
		message, failed := ev.Object("message")
		u.Model, u.ID, u.Usage, err = message.Label("model"), message.Label("id"), llm.CountsOf(message["usage"], false), failed
	case "content_block_start":
		block, failed := ev.Object("content_block")
		u.Pieces, err = pieces(block, llm.Piece{Begin: true, Index: index})
		if p := u.Pieces; len(p) == 1 && p[0].Kind == events.PartToolCall && p[0].Text == "{}" { // it stands for the input that follows
			p[0].Text = ""
		}
		err = cmp.Or(failed, err)
	case "content_block_delta":
		delta, failed := ev.Object("delta")
		u.Pieces, err = pieces(delta, llm.Piece{Index: index})
		err = cmp.Or(failed, err)
	case "message_delta":
		delta, failed := ev.Object("delta")
		details := llm.MembersOf(delta["stop_details"])
		u.Usage, u.End, err = llm.CountsOf(ev["usage"], false), end(delta, details.Label("explanation")), failed
	case "message_stop":
		u.Done, u.End, u.Usage = true, &llm.End{Detail: "no stop_reason"}, llm.CountsOf(llm.UsageIn(e.Data), false)
	default: // ping, content_block_stop and what the API may add, with any fields
	}
	return u, err
}

// end is nil without a reason.
func end(of llm.Members, explanation string) *llm.End {
	reason := of.Label("stop_reason")
	if reason == "" {
		return nil
	}
	return &llm.End{Reason: reason, Detail: "stop_reason: " + reason + " " + explanation}
}

// whole is the message of an endpoint that does not stream.
func whole(r llm.Members) (u llm.Update, err error) {
	u.Model, u.ID, u.Usage, u.End = r.Label("model"), r.Label("id"), llm.CountsOf(r["usage"], false), end(r, "")
	blocks := []llm.Members{{"type": llm.Quote("text"), "text": r["content"]}}
	if bytes.HasPrefix(r["content"], []byte("[")) {
		blocks = nil
		err = llm.Decode(r["content"], &blocks)
	}
	for i, b := range blocks {
		at := llm.Number(i)
		list, failed := pieces(b, llm.Piece{Begin: true, Index: &at})
		u.Pieces, err = append(u.Pieces, list...), cmp.Or(err, failed)
	}
	return u, err
}

// pieces are those of a block, or of a delta: p with what it says. Blocks of server tools are left out, and deltas of other types,
// such as citations.
func pieces(b llm.Members, p llm.Piece) (list []llm.Piece, err error) {
	name := b.Label("type")
	for _, member := range []string{"text", "thinking", "partial_json"} { // some deltas have no type
		if name == "" && llm.IsSet(b[member]) {
			name = member
		}
	}
	switch p.Kind = llm.KindOf(name); {
	case p.Kind == events.PartText:
		return llm.Fragments(p, b["text"])
	case p.Kind == events.PartReasoning:
		if p.Signature, err = llm.TextOf(b["signature"]); err != nil {
			return nil, err
		}
		p.Fields = unsigned
		return llm.Fragments(p, b["thinking"])
	case p.Kind == events.PartToolCall && p.Begin: // some endpoints do not stream the input
		p.Call, p.Tool, p.Whole = events.CallID(b.Label("id")), b.Label("name"), true
		p.Text, err = llm.ArgumentsOf(b["input"])
	case p.Kind == events.PartToolCall:
		p.Text, err = llm.ArgumentsOf(b["partial_json"])
	case name == "redacted_thinking":
		p.Kind, p.Fields = events.PartReasoning, llm.Members{redactedField: llm.Quote(b.Label("data"))}
	case !p.Begin:
		return nil, nil
	}
	return []llm.Piece{p}, err
}
