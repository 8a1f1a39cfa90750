package api

import (
	"github.com/lash-go/lash/events"
)

// Ask is a request for a turn whose input is a text.
func Ask(text string) TurnRequest {
	return TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: text}}}}
}
