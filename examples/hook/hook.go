// Package hook is a hook: the runtime calls it before each tool call, and it decides whether the call runs.
package hook

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/lash-go/lash/session/plugin"
)

// Fence lets the tool "write" write below one directory only. It follows no links. It sees the arguments that the call
// runs with.
func Fence(dir string) plugin.Factory {
	return plugin.Func("fence", func(r *plugin.Registrar) error {
		r.AuthorizeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "write" {
				return nil, nil
			}
			var args struct{ Path string }
			if err := json.Unmarshal(in.Args, &args); err != nil {
				return nil, err // the call fails
			}
			rel, err := filepath.Rel(dir, args.Path)
			if err == nil && filepath.IsLocal(rel) {
				return nil, nil
			}
			// Or plugin.Ask("May it?"), and the call waits for an approval.
			return []plugin.Directive{plugin.Abort("outside", "write below "+dir+" only")}, nil
		})
		return nil
	})
}
