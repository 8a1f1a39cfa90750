// Package scripted is a provider that plays back what was recorded, the
// default where there is no key. It imports llm and events only.
package scripted

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Script finds the answer to a request. It may be called again for the same
// effect, after a crash, and must then answer the same.
type Script func(ctx context.Context, req llm.Request) (Answer, error)

// Answer is one recorded reply.
type Answer struct {
	Response llm.Response
	// Hang makes the call wait, after its deltas, until it is cancelled; the
	// response is then handed over as far as it was recorded. Without Keep there is its usage alone.
	Hang bool
	Keep bool
	// Err, where it is set, is how the call ends after its deltas, without a response but its usage.
	Err error
}

// Provider plays a script.
type Provider struct{ script Script }

// New makes a provider of a script.
func New(script Script) *Provider { return &Provider{script} }

// ID implements [llm.Provider].
func (*Provider) ID() string { return "scripted" }

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	answer, err := p.script(ctx, req)
	if err != nil {
		return llm.Response{}, err
	}
	if sink != nil {
		for _, part := range answer.Response.Parts {
			if part.Kind == events.PartText || part.Kind == events.PartReasoning {
				sink(llm.Delta{Kind: part.Kind, Text: part.Text})
			}
		}
	}
	if answer.Hang {
		<-ctx.Done()
		if answer.Keep {
			return answer.Response, nil
		}
	}
	told := llm.Response{Usage: answer.Response.Usage, Model: answer.Response.Model}
	if err := ctx.Err(); err != nil {
		return told, err
	}
	if answer.Err != nil {
		return told, answer.Err
	}
	return answer.Response, nil
}
