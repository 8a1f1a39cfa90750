package examples_test

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/protocol"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func Example_protocol() {
	ctx := context.Background()
	model := scripted.Replies(scripted.Text("It is 4, I think."), scripted.Text("2 and 2 is 4. ANSWER: 4"))
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model}, protocol.Aloud())
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	id, _ := lash.Create(ctx, api.CreateRequest{Config: events.Config{Protocol: "aloud"}})
	turn, err := lash.Run(ctx, id, api.Ask("What is 2 + 2?"))
	fmt.Println(turn.Text, turn.ModelCalls, err)
	// Output: 4 2 <nil>
}
