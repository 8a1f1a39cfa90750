package examples_test

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/examples/hook"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func Example_hook() {
	ctx := context.Background()
	model := scripted.Replies(scripted.Call("write", `{"Path":"/etc/hosts"}`), scripted.Call("write", `{"Path":"/tmp/hosts"}`), scripted.Text("Done."))
	write := plugin.OfTool(plugin.Tool{Name: "write"}, func(_ context.Context, _ plugin.Call, to struct{ Path string }) (string, error) {
		fmt.Println("writing", to.Path)
		return "written", nil
	})
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model}, write, hook.Fence("/tmp"))
	if err != nil {
		panic(err)
	}
	defer lash.Stop()
	id, _ := lash.Create(ctx, api.CreateRequest{}) // where it fails, so does the turn
	turn, err := lash.Run(ctx, id, api.Ask("Save the hosts."))
	fmt.Println(turn.Text, turn.ToolCalls, err)
	// Output:
	// writing /tmp/hosts
	// Done. 2 <nil>
}
