package examples_test

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/examples/state"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func Example_state() {
	ctx := context.Background()
	model := scripted.Replies(scripted.Call("note", `{"Text":"likes tea"}`), scripted.Text("Noted."))
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model}, state.Notes())
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	id, _ := lash.Create(ctx, api.CreateRequest{}) // where it fails, so does the turn
	turn, err := lash.Run(ctx, id, api.Ask("I like tea."))
	fmt.Println(turn.Text, err)
	now, err := lash.State(ctx, id) // folded from the history alone
	fmt.Println(string(now.Plugin("notes").State), err)
	// Output:
	// Noted. <nil>
	// ["likes tea"] <nil>
}
