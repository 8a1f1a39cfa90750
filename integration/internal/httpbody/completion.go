package httpbody

import (
	"github.com/lash-go/lash/events"
)

// CompletionDelta is a part of the reply to a direct completion, for display; the result has the final reply.
type CompletionDelta struct {
	Kind  events.PartKind `json:"kind,omitempty"`
	Text  string          `json:"text,omitempty"`
	Reset bool            `json:"reset,omitempty"`
}
