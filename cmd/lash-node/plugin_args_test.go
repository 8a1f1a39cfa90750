package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestPluginArguments runs commands of plugins with arguments that are missing, or that do not go together. Each error
// names what is wrong, and what to type.
func TestPluginArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"lash-node plugin check -- ./my-plugin": {"check"},
		"see lash-node plugin check --help":     {"check", "--nothing"},
		"see lash-node plugin run --help":       {"run"},
		"expected \"<command> ...":              {"run", "notes"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), append([]string{"plugin"}, args...), &streams{Out: &bytes.Buffer{}, Err: &stderr, Env: func(string) string { return "" }})
		if code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: got %d and %q, want %q", args, code, stderr.String(), want)
		}
	}
}
