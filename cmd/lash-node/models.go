package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lash-go/lash/cmd/internal/modelcheck"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/workers/llm"
)

type modelsCmd struct {
	Check modelsCheckCmd `cmd:"" help:"Send small requests to a model's endpoint, and show what it can do."`
}

type modelsCheckCmd struct {
	Provider string        `help:"Model provider: openai (Chat Completions), openai-responses or anthropic. Defaults to the one whose key is in the environment." placeholder:"NAME"`
	Model    string        `help:"Model. Without it the models that there are are listed." placeholder:"NAME"`
	Long     int           `help:"Tokens of the long prompt, about." default:"8000" placeholder:"N"`
	Timeout  time.Duration `help:"Time for each request." default:"2m"`
	JSON     bool          `name:"json" help:"Print a JSON object for each check."`
}

func (*modelsCheckCmd) Help() string {
	return `The first thing to run with an unknown server. Two dozen small requests ask for an answer, for calls of a tool, with schemas of all kinds, a
picture, and so on. A row says yes, no, or odd: the request is taken, and the reply is not what was asked for, as small models do.
Sessions need an answer, a call and its result. Exit codes: 0 they have those, 1 they do not, 2 it could not be done.

` + serve.ModelsHelp
}

// Run makes the checks. Tokens are spent.
func (c *modelsCheckCmd) Run(ctx context.Context, s *streams) error {
	p, err := serve.Provider(s, c.Provider)
	if err != nil {
		return err
	}
	if c.Long < 1 || c.Timeout <= 0 {
		return errors.New("--long and --timeout: want more than 0")
	}
	warn := func(err error) { s.Printf("the list of %s does not show --model %s: %v", p.ID(), c.Model, err) }
	if err := llm.CheckModel(ctx, p, c.Model, warn); err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	good := modelcheck.Run(ctx, modelcheck.Config{Provider: p, Model: c.Model, Long: c.Long, Timeout: c.Timeout}, func(r modelcheck.Row) {
		if c.JSON {
			_ = writeJSON(s, r)
			return
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.1f s\t%s\n", r.Check, r.Result, float64(r.Millis)/1000, r.Detail)
		s.Printf("%s: %s", r.Check, r.Result)
	})
	if err := table.Flush(); err != nil {
		return err
	}
	if !good {
		return program.Difference("sessions do not work with this model: an answer, a call or its result is missing")
	}
	return nil
}
