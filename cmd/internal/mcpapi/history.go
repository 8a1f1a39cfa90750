package mcpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
)

// defaultMessages limits the messages of read_history where the agent gives no limit.
const defaultMessages = 50

// part selects messages of a conversation.
type part struct {
	Session string `json:"session"`
	From    *int   `json:"from,omitempty" jsonschema:"index of the first message; omitted: the last messages"`
	Limit   int    `json:"limit,omitempty" jsonschema:"of messages; omitted: 50"`
}

// messages are a part of a conversation.
type messages struct {
	Messages []json.RawMessage `json:"messages"`
	From     int               `json:"from"`           // index of the first one
	Of       int               `json:"of"`             // messages of the conversation
	Next     int               `json:"next,omitempty"` // from of the part that follows; omitted: there is none
}

func (a *api) history(ctx context.Context, _ *mcp.CallToolRequest, in part) (json.RawMessage, error) {
	if in.From != nil && *in.From < 0 {
		return nil, errors.New("from: is negative")
	}
	if in.Limit < 0 {
		return nil, errors.New("limit: is negative")
	}
	limit := cmp.Or(in.Limit, defaultMessages)
	view := viewed{Session: in.Session, Last: limit}
	if in.From != nil {
		view = viewed{Session: in.Session, From: in.From, Limit: limit}
	}
	out, err := a.conversation(ctx, view)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&out)
}

// viewed selects a page of the messages of a session.
type viewed struct {
	Session string `json:"session"`
	From    *int   `json:"from,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Last    int    `json:"last,omitempty"`
}

// conversation reads a page of the messages of a session.
func (a *api) conversation(ctx context.Context, view viewed) (page messages, err error) {
	data, err := a.perform(ctx, operation.View, view)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return page, fmt.Errorf("the conversation is no JSON of its form: %w", err)
	}
	return page, nil
}

type searched struct {
	Session string `json:"session,omitempty" jsonschema:"omitted: all that you may read"`
	Text    string `json:"text,omitempty" jsonschema:"omitted: without session, with another condition"`
	Tool    string `json:"tool,omitempty" jsonschema:"without session: turns that called this tool"`
	Actor   string `json:"actor,omitempty" jsonschema:"without session: turns with a request, an answer or another commit of this actor: client:alice, or alice"`
	Outcome string `json:"outcome,omitempty" jsonschema:"without session: turns with this outcome, or a call in them: finished, cancelled, failure, lost, granted, refused"`
	Label   string `json:"label,omitempty" jsonschema:"without session: sessions with this label, as NAME=TEXT"`
	Limit   int    `json:"limit,omitempty" jsonschema:"without session: of sessions in the page; with it, of messages: omitted: 50"`
	From    int    `json:"from,omitempty" jsonschema:"with session: index of the message where the search begins; next of the search before"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"without session: next of the page before"`
}

// found is a message that has the text.
type found struct {
	Index   int             `json:"index"` // in the conversation
	Message json.RawMessage `json:"message"`
}

func (a *api) search(ctx context.Context, _ *mcp.CallToolRequest, in searched) (json.RawMessage, error) {
	others := in
	others.Session, others.Text, others.From, others.Limit = "", "", 0, 0
	switch {
	case in.From < 0 || in.Limit < 0:
		return nil, errors.New("from, limit: one is negative")
	case in.Session == "" && in.From != 0:
		return nil, errors.New("from: needs session")
	case in.Session == "":
		return a.perform(ctx, &operation.Search.Row, in)
	case others != searched{}:
		return nil, errors.New("session: excludes every other argument than text")
	case in.Text == "":
		return nil, errors.New("text: is empty")
	}
	out := struct {
		Found []found `json:"found"`
		Of    int     `json:"of"`             // messages
		Next  int     `json:"next,omitempty"` // from, to search on; omitted: all was searched
	}{Found: []found{}}
	limit := cmp.Or(in.Limit, defaultMessages)
	ofPage, part := memory.Part(ctx)
	defer part.Close()
	for from := in.From; ; {
		page, err := a.conversation(ofPage, viewed{Session: in.Session, From: &from})
		if err != nil {
			return nil, err
		}
		for i, m := range page.Messages {
			if !hasText(m, strings.ToLower(in.Text)) {
				continue
			}
			out.Found = append(out.Found, found{page.From + i, m})
			if at := page.From + i + 1; len(out.Found) == limit && at < page.Of {
				out.Of, out.Next = page.Of, at
				return json.Marshal(&out)
			}
		}
		if out.Of, from = page.Of, page.Next; from == 0 {
			return json.Marshal(&out)
		}
		part.GiveBack()
	}
}

// hasText reports whether something that was said in a message contains what is searched, in lower case: a text, an
// argument of a call or a result. Names of roles, parts and tools are none, and neither are attachments.
func hasText(data []byte, what string) bool {
	var message struct {
		Parts []struct {
			Type, Text string
			Args       any
		}
	}
	if json.Unmarshal(data, &message) != nil {
		return false
	}
	for _, p := range message.Parts {
		if p.Type != "attachment" && (textOf(p.Text, what) || textOf(p.Args, what)) {
			return true
		}
	}
	return false
}

// textOf reports whether a text of a JSON value contains what is searched.
func textOf(v any, what string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(strings.ToLower(v), what)
	case []any:
		for _, e := range v {
			if textOf(e, what) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if textOf(e, what) {
				return true
			}
		}
	}
	return false
}
