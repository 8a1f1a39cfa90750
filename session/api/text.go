package api

import (
	"github.com/lash-go/lash/events"
)

// Ask returns a turn request with a text as its input.
func Ask(text string) TurnRequest {
	return TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: text}}}}
}
