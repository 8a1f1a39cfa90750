package mcpapi

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/session/httpapi"
)

// Results that are no answers of the API.
const (
	answeredSchema = `{"type":"object","properties":{"answered":{"const":true}},"required":["answered"]}`
	historySchema  = `{"type":"object","properties":{"messages":{"type":"array","items":{"type":"object"}},"from":{"type":"integer"},"of":{"type":"integer"},` +
		`"next":{"type":"integer","description":"from of the part that follows; omitted: there is none"}},"required":["messages","from","of"]}`
	foundSchema = `{"type":"object","properties":{"found":{"type":"array","items":{"type":"object","properties":{"index":{"type":"integer"},"message":{"type":"object"}},"required":["index","message"]}},` +
		`"of":{"type":"integer"},"next":{"type":"integer","description":"from, to search on; omitted: all was searched"}},"required":["found","of"]}`
)

// resultSchemas are the schemas of what the tools return, by their names: those of the answers of the API.
func resultSchemas() map[string]*jsonschema.Schema {
	out := make(map[string]*jsonschema.Schema)
	for name, ids := range map[string][]string{
		"create_session": {"createSession"}, "list_sessions": {"listSessions"}, "read_session": {"getSession"}, "run_turn": {"getTurn"}, "wait_turn": {"getTurn"}, "cancel_turn": {"cancelTurn"},
		"list_approvals": {"getApprovals", "listApprovals"}, "search_history": {"search"},
	} {
		s, err := httpapi.AnswerSchema(ids...)
		if err != nil {
			panic(err) // the table of routes decides it
		}
		out[name] = s
	}
	for name, text := range map[string]string{"answer_approval": answeredSchema, "read_history": historySchema} {
		out[name] = literal(text)
	}
	search := out["search_history"] // of one session, or of all
	search.AnyOf = append(search.AnyOf, literal(foundSchema))
	return out
}

func literal(text string) *jsonschema.Schema {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		panic(err) // a constant
	}
	return s
}
