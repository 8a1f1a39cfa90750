// Package protocol is a protocol: it writes the model's instructions, and interprets its replies.
package protocol

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// Aloud is the protocol "aloud": the model thinks aloud, and only its answer counts.
func Aloud() plugin.Factory { return plugin.OfDriver("aloud", plugin.DriverFunc(preamble)) }

func preamble(plugin.PreambleInput) plugin.Preamble {
	return plugin.Preamble{
		Contributions: []events.Contribution{{Slot: events.SlotExecution, Content: "Think aloud, then write ANSWER: and the answer."}},
		HideTools:     true, // this protocol has no calls
		Read:          read,
	}
}

func read(r plugin.Response) plugin.Reading {
	_, answer, found := strings.Cut(r.Text(), "ANSWER:")
	if !found { // the runtime returns the reason to the model, and calls it again
		return plugin.Reading{Parts: r.Parts, Correct: "There is no ANSWER: in your reply."}
	}
	return plugin.Reading{Parts: []events.Part{{Kind: events.PartText, Text: strings.TrimSpace(answer)}}}
}
