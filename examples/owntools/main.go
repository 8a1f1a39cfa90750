// Command owntools is lash-node serve with an additional tool. It has all flags of lash-node serve, and --help lists
// the tool.
//
//	OPENAI_API_KEY=... go run ./examples/owntools --model gpt-4o-mini --store sessions
package main

import (
	"os"

	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/examples/tool"
	"github.com/lash-go/lash/session/plugin"
)

func main() {
	os.Exit(serve.Main(serve.Config{Plugins: []plugin.Factory{tool.Weather()}}))
}
