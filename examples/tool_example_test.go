package examples_test

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/examples/tool"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func Example_tool() {
	ctx := context.Background()
	model := scripted.Replies(scripted.Call("weather", `{"city":"Oslo"}`), scripted.Text("Take an umbrella."))
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model}, tool.Weather())
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	id, _ := lash.Create(ctx, api.CreateRequest{}) // where it fails, so does the turn
	turn, err := lash.Run(ctx, id, api.Ask("What is it like in Oslo?"))
	fmt.Println(turn.End, turn.ToolCalls, turn.Text, err)
	// Output: finished 1 Take an umbrella. <nil>
}
