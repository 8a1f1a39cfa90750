// Package hook is a hook: the runtime calls it before each tool call, and it decides whether the call runs.
package hook

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/lash-go/lash/session/plugin"
)

// Fence lets the tool "write" write below one directory only. It follows no links. It sees the arguments that the call runs with.
func Fence(dir string) plugin.Factory {
	return plugin.Func("fence", func(r *plugin.Registrar) error {
		r.AuthorizeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			var to struct{ Path string }
			err := json.Unmarshal(in.Args, &to)
			below, elsewhere := filepath.Rel(dir, to.Path)
			if in.Tool != "write" || err == nil && elsewhere == nil && filepath.IsLocal(below) {
				return nil, nil
			}
			// Or plugin.Ask("May it?"), and the call waits for an approval.
			return []plugin.Directive{plugin.Abort("outside", "write below "+dir+" only")}, nil
		})
		return nil
	})
}
