package state_test

import (
	"context"
	"fmt"
	"os"

	"github.com/lash-go/lash/examples/state"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func Example() {
	dir, _ := os.MkdirTemp("", "notes")
	defer os.RemoveAll(dir)
	first := run(dir, scripted.Replies(scripted.Call("note", `{"Text":"likes tea"}`), scripted.Text("Noted.")))
	fmt.Println(first, run(dir, scripted.Echo())) // the second is another process in the same directory
	// Output: Noted. Your notes: ["likes tea"]
}

func run(dir string, model *scripted.Provider) string {
	ctx := context.Background()
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model, StoreDir: dir}, state.Notes())
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	_, _ = lash.Create(ctx, session.CreateRequest{ID: "tea"}) // the second time it is there
	turn, _ := lash.Run(ctx, "tea", session.Ask("I like tea."))
	return turn.Text // empty where it failed
}
