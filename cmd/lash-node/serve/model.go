package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

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
  OPENAI_HEADERS, ANTHROPIC_HEADERS
                      headers of each request, as {"api-key": "..."}
  OPENAI_QUERY, ANTHROPIC_QUERY
                      query of each request, as api-version=2024-10-21

lash-node models check shows what an endpoint can do.

`

// checkModel refuses a model as [llm.CheckModel] does. Errors name only models that the locks allow.
func (c *Command) checkModel(ctx context.Context, s *program.Streams, p llm.Provider, locks *lock.Locks) error {
	over := s.NoteWait("the list of models of %s", p.ID())
	var warning error
	err := llm.CheckModel(ctx, p, c.Model, func(err error) { warning = err })
	over()
	if lacks, ok := errors.AsType[*llm.ModelError](warning); ok {
		s.Printf("--model %s: the list of %s has none of that name; it has %s", c.Model, p.ID(), llm.ShortList(locks.AllowedModels(lacks.Models)))
	} else if warning != nil {
		s.Printf("--model %s is not checked: %s gives no list of models: %s%s", c.Model, p.ID(), warning, c.listAdvice(s, p, warning))
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
	}
	return fmt.Errorf("--model is missing: %s has %s: --model NAME chooses one", p.ID(), has)
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

// Provider is a provider that the environment configures, by name or, without one, that of sessions that name none.
func Provider(s *program.Streams, name string) (llm.Provider, error) {
	c := Command{Provider: name}
	list, err := c.providers(s, &lock.Locks{})
	if err != nil {
		return nil, err
	}
	if c.Provider == scriptedID {
		return nil, errors.New("no model: set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY")
	}
	return list[c.Provider], nil
}

// ModelFlags are the settings of model calls.
type ModelFlags struct {
	Silence    Silence       `name:"model-silence" help:"How long a model may send no content before a call fails as cut off, before its reply and within it: a duration, and PATTERN=DURATION for models that think longer without a word, where * is any text. A session's silence_ms goes first." default:"5m" placeholder:"DURATION,MODEL=DURATION,..." setting:""`
	ModelRetry time.Duration `name:"model-retry" help:"How long tries of a model call go on after its first failure, while the provider is overloaded or cannot be reached. A wait that it asks for is kept within that time; a longer one ends the turn, and is told." default:"5m" setting:""`
}

// providers are those of the program, the shipped ones whose key is in the environment, and the scripted one.
func (c *Command) providers(s *program.Streams, locks *lock.Locks) (map[string]llm.Provider, error) {
	list := map[string]llm.Provider{scriptedID: scripted.New(noModel)}
	choice := scriptedID
	if key := s.Env("ANTHROPIC_API_KEY"); key != "" {
		header, query, err := endpointSettings(s, "ANTHROPIC")
		if err != nil {
			return nil, err
		}
		p, err := anthropic.New(anthropic.Config{APIKey: key, BaseURL: s.Env("ANTHROPIC_BASE_URL"), Header: header, Query: query})
		if err != nil {
			return nil, fmt.Errorf("ANTHROPIC_BASE_URL: %w", err)
		}
		list["anthropic"], choice = p, "anthropic"
	}
	key, base := s.Env("OPENAI_API_KEY"), s.Env("OPENAI_BASE_URL")
	if key != "" || base != "" {
		header, query, err := endpointSettings(s, "OPENAI")
		if err != nil {
			return nil, err
		}
		cfg := openai.Config{APIKey: key, BaseURL: base, Header: header, Query: query}
		p, err := openai.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("OPENAI_BASE_URL: %w", err)
		}
		r, err := openai.NewResponses(cfg)
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

// endpointSettings are the headers and the query of an endpoint, from the environment. Errors do not have their values.
func endpointSettings(s *program.Streams, vendor string) (http.Header, url.Values, error) {
	header := http.Header{}
	if text := s.Env(vendor + "_HEADERS"); text != "" {
		var list map[string]string
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, nil, fmt.Errorf(`%s_HEADERS: want an object of texts, as {"api-key": "..."}`, vendor)
		}
		for name, value := range list {
			header.Set(name, value)
		}
	}
	query, err := url.ParseQuery(strings.TrimPrefix(s.Env(vendor+"_QUERY"), "?"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s_QUERY: want a query, as api-version=2024-10-21", vendor)
	}
	return header, query, nil
}

// providerNames are the providers that --provider may name, whether or not their keys are there.
func (c *Command) providerNames() []string {
	names := []string{"openai", "openai-responses", "anthropic", scriptedID}
	for _, p := range c.adds.Providers {
		names = append(names, p.ID())
	}
	return names
}
