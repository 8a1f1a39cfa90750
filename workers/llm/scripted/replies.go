package scripted

import (
	"context"
	"fmt"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Replies is a provider that responds with these replies in order. After the last one every request is an error.
func Replies(list ...[]events.Part) *Provider {
	var mu sync.Mutex
	indexes := make(map[events.EffectID]int) // of the replies: a repeated request gets the same one
	return New(func(_ context.Context, req llm.Request) (Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		id := events.EffectID(req.Session) + "/" + req.Effect
		n, again := indexes[id]
		if !again {
			n = len(indexes)
			indexes[id] = n
		}
		if n >= len(list) {
			return Answer{}, &llm.Error{Kind: llm.KindRequest, Message: fmt.Sprintf("the script has %d replies, and this is request %d", len(list), n+1)}
		}
		return Answer{Response: llm.Response{Parts: list[n], Stop: events.StopEnd}}, nil
	})
}

// Text is a reply of one text.
func Text(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }

// Call is a reply that calls one tool. args is a JSON object.
func Call(tool, args string) []events.Part {
	return []events.Part{{Kind: events.PartToolCall, Call: "call", Tool: tool, Args: []byte(args)}}
}
