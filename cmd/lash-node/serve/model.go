package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/openai"
	"github.com/lash-go/lash/workers/llm/scripted"
)

const scriptedID = "scripted"

// unreachable is the advice where a provider does not answer.
const unreachable = "does the endpoint run, and is its base URL in the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL) right?"

// ModelsHelp is the part of a command's help about models.
const ModelsHelp = `Models come from these variables of the node's environment:

  OPENAI_API_KEY      key of OpenAI, or of an endpoint with its API
  OPENAI_BASE_URL     such an endpoint, as http://localhost:11434/v1; the key may be left out
  ANTHROPIC_API_KEY   key of Anthropic
  ANTHROPIC_BASE_URL  another endpoint with its API, without /v1

`

// checkModel refuses a model as [llm.CheckModel] does. Errors name only models that the locks allow.
func (c *Command) checkModel(ctx context.Context, s *program.Streams, p llm.Provider, locks *lock.Locks) error {
	over := s.NoteWait("the list of models of %s", p.ID())
	var unchecked error
	err := llm.CheckModel(ctx, p, c.Model, func(err error) { unchecked = err })
	over()
	if unchecked != nil {
		s.Printf("--model %s is not checked: %s gives no list of models: %s%s", c.Model, p.ID(), unchecked, c.listAdvice(s, p, unchecked))
	}
	refused, _ := errors.AsType[*llm.ModelError](err)
	if refused == nil {
		return err
	}
	failed, _ := errors.AsType[*llm.Error](refused.Err)
	has := llm.ShortList(locks.AllowedModels(refused.Models))
	switch {
	case failed != nil && failed.Kind == llm.KindAuth:
		return fmt.Errorf("--provider %s: %w: check the key in the environment", p.ID(), failed)
	case failed != nil && failed.Kind == llm.KindTransport:
		return fmt.Errorf("--model is missing, and %s gives no list to choose from: %w%s; --model NAME starts without the list", p.ID(), failed, c.listAdvice(s, p, failed))
	case refused.Err != nil:
		return fmt.Errorf("--model is missing, and %s gives no list to choose from: %w%s: --model NAME names one", p.ID(), refused.Err, c.listAdvice(s, p, refused.Err))
	case c.Model == "":
		return fmt.Errorf("--model is missing: %s has %s: --model NAME chooses one", p.ID(), has)
	}
	return fmt.Errorf("--model %s: %s has none of that name; it has %s", c.Model, p.ID(), has)
}

// listAdvice says what may be wrong where a provider gives no list of models: the endpoint does not answer, or an endpoint of the
// operator does not know the path.
func (c *Command) listAdvice(s *program.Streams, p llm.Provider, err error) string {
	failed, _ := errors.AsType[*llm.Error](err)
	if failed == nil {
		return ""
	}
	if failed.Kind == llm.KindTransport {
		return ": " + unreachable
	}
	base := strings.TrimRight(s.Env("OPENAI_BASE_URL"), "/")
	if failed.Status != http.StatusNotFound || !strings.HasPrefix(p.ID(), "openai") || base == "" || strings.HasSuffix(base, "/v1") {
		return ""
	}
	return ": OPENAI_BASE_URL mostly ends with /v1"
}

// noModel replies where no model is configured. The reply names the next step.
func noModel(context.Context, llm.Request) (scripted.Answer, error) {
	text := "This node has no model. Start it with OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY in its environment."
	return scripted.Answer{Response: llm.Response{
		Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: text}},
	}}, nil
}

// HasKey reports whether the environment has the key of a shipped provider.
func HasKey(env func(name string) string) bool {
	return env("OPENAI_API_KEY") != "" || env("OPENAI_BASE_URL") != "" || env("ANTHROPIC_API_KEY") != ""
}

// providers are those of the program, the shipped ones whose key is in the environment, and the scripted one.
func (c *Command) providers(s *program.Streams, locks *lock.Locks) (map[string]llm.Provider, error) {
	list := map[string]llm.Provider{scriptedID: scripted.New(noModel)}
	choice := scriptedID
	if key := s.Env("ANTHROPIC_API_KEY"); key != "" {
		p, err := anthropic.New(anthropic.Config{APIKey: key, BaseURL: s.Env("ANTHROPIC_BASE_URL")})
		if err != nil {
			return nil, fmt.Errorf("ANTHROPIC_BASE_URL: %w", err)
		}
		list["anthropic"], choice = p, "anthropic"
	}
	key, base := s.Env("OPENAI_API_KEY"), s.Env("OPENAI_BASE_URL")
	if key != "" || base != "" {
		p, err := openai.New(openai.Config{APIKey: key, BaseURL: base})
		if err != nil {
			return nil, fmt.Errorf("OPENAI_BASE_URL: %w", err)
		}
		r, err := openai.NewResponses(openai.Config{APIKey: key, BaseURL: base})
		if err != nil {
			return nil, fmt.Errorf("OPENAI_BASE_URL: %w", err)
		}
		list["openai"], list["openai-responses"], choice = p, r, "openai"
	}
	for i, p := range c.adds.Providers {
		if i == 0 {
			choice = p.ID()
		}
		list[p.ID()] = p
	}
	if c.Provider == "" {
		c.Provider, c.unset = choice, choice == scriptedID
	}
	if names := c.providerNames(); !slices.Contains(names, c.Provider) {
		return nil, fmt.Errorf("--provider %s: there is no such provider: it is one of %s", c.Provider, llm.ShortList(locks.AllowedProviders(names)))
	}
	if list[c.Provider] == nil {
		return nil, fmt.Errorf("--provider %s: its key is not in the environment (OPENAI_API_KEY or OPENAI_BASE_URL, ANTHROPIC_API_KEY)", c.Provider)
	}
	return list, nil
}

// providerNames are the providers that --provider may name, whether or not their keys are there.
func (c *Command) providerNames() []string {
	names := []string{"openai", "openai-responses", "anthropic", scriptedID}
	for _, p := range c.adds.Providers {
		names = append(names, p.ID())
	}
	return names
}
