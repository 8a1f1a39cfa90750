package harness

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// LedgerRow is an entry of the ledger with input and output only.
func LedgerRow(source, model string, input, output int64) projector.LedgerEntry {
	return projector.LedgerEntry{Source: source, Model: model, Usage: events.Usage{Input: input, Output: output}}
}

// CompletionOf is a completion request with one user message.
func CompletionOf(s string) plugin.CompletionRequest {
	return plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, s)}}
}

// CompletionBody is the body of a completion request over HTTP.
const CompletionBody = `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}],"source":"aside"}`
