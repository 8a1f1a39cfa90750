package llm

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"

	"github.com/lash-go/lash/events"
)

// Vendor is what an endpoint wants back with a part of its replies. It is the part's Meta, in JSON.
type Vendor struct {
	From   string  `json:"from"`            // the endpoint, and
	Model  string  `json:"model,omitempty"` // the requested model: no other has a use for the fields
	ID     string  `json:"id,omitempty"`
	Fields Members `json:"fields"`
}

// SignatureField is the field of a part's joined [Piece.Signature].
const SignatureField = "signature"

func (e *Endpoint) from() string { return e.wire.Name + " " + e.base.Host }

// Own returns what this endpoint and model want back with a part. It is zero for parts of others.
func (p *Prepared) Own(part events.Part) (v Vendor) {
	forgotten := p.endpoint.forgotten
	if len(part.Meta) == 0 || json.Unmarshal(part.Meta, &v) != nil || v.From != p.endpoint.from() || v.Model != p.Model ||
		forgotten.Len() > 0 && forgotten.Contains(sha256.Sum256(part.Meta)) {
		return Vendor{}
	}
	return v
}

// meta is the Meta of a part, nil without fields.
func (p *Prepared) meta(part *assembled) []byte {
	v := Vendor{From: p.endpoint.from(), Model: p.Model, ID: part.id, Fields: Members{}}
	for name, values := range part.fields {
		v.Fields[name] = joinValues(values)
	}
	if part.signature.Len() > 0 { // an empty one may be among the fields
		v.Fields[SignatureField] = Quote(part.signature.String())
	}
	if len(v.Fields) == 0 {
		return nil
	}
	data, _ := json.Marshal(v) // the fields are JSON: they were received as such
	return data
}

// joinValues is one list of several. The pieces of a block that Portkey sends are the block, as it wants it back.
func joinValues(values []json.RawMessage) json.RawMessage {
	if values[0][0] != '[' {
		return values[0]
	}
	var all []any
	for _, value := range values {
		for _, one := range list(decoded(value)) {
			all = appendPiece(all, one)
		}
	}
	for i, one := range all {
		block := object(object(one)["delta"])
		for member, kind := range map[string]string{"text": "text", "thinking": "thinking", "data": "redacted_thinking"} {
			if block[member] != nil {
				block["type"], all[i] = kind, block
			}
		}
	}
	data, _ := json.Marshal(all) // it was JSON
	return data
}

// appendPiece appends an element to a list. A piece of the last element, which has its index and its type, is joined with it; without an
// index a piece of thinking that has no signature yet, which comes with its own or with all of the thinking.
func appendPiece(all []any, one any) []any {
	next := object(one)
	if len(all) == 0 || next == nil {
		return append(all, one)
	}
	last := object(all[len(all)-1])
	before, _ := last["signature"].(string)
	signature, _ := next["signature"].(string)
	thinking := next["type"] == "thinking" && before == ""
	if next["index"] == nil && !thinking || !reflect.DeepEqual(last["index"], next["index"]) || !reflect.DeepEqual(last["type"], next["type"]) {
		return append(all, one)
	}
	if thinking && signature != "" && reflect.DeepEqual(last["thinking"], next["thinking"]) {
		delete(next, "thinking")
	}
	continued(last, next)
	return all
}

// continued adds a piece of an object to what is there of it: texts are continued.
func continued(into, piece Object) {
	for name, value := range piece {
		before, isText := into[name].(string)
		text, continues := value.(string)
		switch inner := object(into[name]); {
		case value == nil:
		case isText && continues && name != "type" && name != "id" && name != "format":
			into[name] = before + text
		case inner != nil && object(value) != nil:
			continued(inner, object(value))
		default:
			into[name] = value
		}
	}
}

// Quote is s as a JSON string, for a field.
func Quote(s string) json.RawMessage {
	data, _ := json.Marshal(s) // a string always can be
	return data
}
