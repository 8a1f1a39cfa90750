// Package hook is a hook: the runtime calls it before each tool call, and it decides whether the call runs.
package hook

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/session/plugin"
)

// Fence lets the tool "write" write below one directory only.
func Fence(dir string) plugin.Factory {
	return plugin.Func("fence", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			var to struct{ Path string }
			if err := json.Unmarshal(in.Args, &to); err != nil || in.Tool != "write" || strings.HasPrefix(filepath.Clean(to.Path), dir) {
				return nil, err
			}
			// Or plugin.Ask("May it?"), and the call waits for an approval.
			return []plugin.Directive{plugin.Abort("outside", "write below "+dir+" only")}, nil
		})
		return nil
	})
}
