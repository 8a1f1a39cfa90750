package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

const (
	modelWait   = 10 * time.Second // for the provider's list
	modelsShown = 40
)

// checkModel refuses a model that is missing, or that the provider does not have.
// A provider that gives no list, or does not answer, is taken at its word: it may come back.
func (c *serveCmd) checkModel(ctx context.Context, s *streams, p llm.Provider) error {
	lister, ok := p.(llm.Lister)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelWait)
	defer cancel()
	slow := time.AfterFunc(2*time.Second, func() { write(s.err, "lash-node: waiting for the list of models of %s\n", p.ID()) })
	names, err := lister.Models(ctx)
	slow.Stop()
	slices.Sort(names)
	failed, _ := errors.AsType[*llm.Error](err)
	switch {
	case failed != nil && failed.Kind == llm.KindAuth:
		return fmt.Errorf("--provider %s: %w: check the key in the environment", p.ID(), err)
	case c.Model == "" && err != nil:
		return fmt.Errorf("--model is missing, and %s gives no list to choose from: %w", p.ID(), err)
	case c.Model == "":
		return fmt.Errorf("--model is missing: %s has %s", p.ID(), shown(names))
	case err != nil:
		write(s.err, "lash-node: --model %s is not checked: %s gives no list of models: %s\n", c.Model, p.ID(), err)
	case !slices.Contains(names, c.Model):
		return fmt.Errorf("--model %s: %s has none of that name; it has %s", c.Model, p.ID(), shown(names))
	}
	return nil
}

// shown is a list for a line of a terminal.
func shown(names []string) string {
	if more := len(names) - modelsShown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:modelsShown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// noModel answers where no model is configured, so that a new user sees what to do next.
func noModel(context.Context, llm.Request) (scripted.Answer, error) {
	text := "This node has no model. Start it with OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY in its environment."
	return scripted.Answer{Response: llm.Response{
		Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: text}},
	}}, nil
}
