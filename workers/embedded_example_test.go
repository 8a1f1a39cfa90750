package workers_test

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

type addRequest struct {
	A int `json:"a"`
	B int `json:"b"`
}

// ExampleStart runs a turn whose model calls a tool. A program with a model has a provider of package llm/openai
// or llm/anthropic instead of the scripted one.
func ExampleStart() {
	ctx := context.Background()
	model := scripted.Replies(
		scripted.Call("add", `{"a":2,"b":3}`), // the model's first reply calls the tool
		scripted.Text("The sum is 5."),        // its second one, with the tool's result, ends the turn
	)
	calculator := plugin.Func("calculator", func(r *plugin.Registrar) error {
		tool := plugin.Tool{Name: "add", Description: "Adds two numbers.", Effects: events.EffectsNone}
		plugin.AddTool(r, tool, func(_ context.Context, _ plugin.Call, in addRequest) (string, error) {
			return fmt.Sprint(in.A + in.B), nil
		})
		return nil
	})
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model}, calculator)
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	id, err := lash.Create(ctx, api.CreateRequest{})
	if err != nil {
		panic(err)
	}
	turn, err := lash.Run(ctx, id, api.Ask("What is 2 + 3?"))
	fmt.Println(turn.End, turn.ToolCalls, turn.Text, err)
	// Output: finished 1 The sum is 5. <nil>
}
