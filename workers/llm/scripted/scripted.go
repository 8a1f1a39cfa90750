// Package scripted is a provider that responds from a script, without a model. It imports llm and events only.
package scripted

import (
	"cmp"
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Script responds to a request. After a crash it may be called again for the same effect, and must then return the
// same answer.
type Script func(ctx context.Context, req llm.Request) (Answer, error)

// Answer is the response to one request.
type Answer struct {
	Response llm.Response
	// Hang makes the call wait, after its deltas, until it is cancelled. With Keep it then returns the response, else
	// only the usage.
	Hang bool
	Keep bool
	// Err, if set, is the error of the call after its deltas. The response then has only the usage and the model.
	Err error
}

// Provider plays a script.
type Provider struct{ script Script }

// New creates a provider that responds with a script.
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
	reported := llm.Response{Usage: answer.Response.Usage, Model: answer.Response.Model}
	if err := cmp.Or(ctx.Err(), answer.Err); err != nil {
		return reported, err
	}
	return answer.Response, nil
}
