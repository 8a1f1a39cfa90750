package serve

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// TestRulesNameTools has each flag of the gate's rules name tools of this node, of plugins that it could have, of the
// program, and none.
func TestRulesNameTools(t *testing.T) {
	t.Parallel()
	source := plugin.Func("lender", func(r *plugin.Registrar) error {
		r.Source("lent", func(context.Context) (*plugin.Tools, error) { return nil, nil })
		return nil
	})
	mine := Config{Plugins: []plugin.Factory{shout("shout")}}
	for _, tc := range []struct {
		cfg  Config
		tool string
		ok   bool
	}{
		{Config{}, "spawn_agent", true},
		{Config{}, "run_command", true}, // of the shell, which this node does not have
		{Config{}, "*", true},
		{Config{}, "run_*", true},
		{Config{}, "srv__*", false}, // there are no servers
		{mine, "shout", true},
		{Config{}, "shout", false},
		{Config{}, "run_comand", false},
		{Config{}, "shell", false}, // a plugin
		{mine, "shouts", false},
		{Config{Plugins: []plugin.Factory{source}}, "shouts", true}, // it may come from the source
	} {
		for _, flag := range []string{"--allow", "--ask", "--deny"} {
			for _, pattern := range []string{"", ":x*", ":a:b"} {
				c, err := tc.cfg.parsed(silent(), flag, tc.tool+pattern)
				runtest.NoError(t, err)
				_, err = c.plugins(silent())
				if tc.ok && err != nil {
					t.Errorf("%s %s%s: got %v, want no error", flag, tc.tool, pattern, err)
				}
				if want := flag + " " + tc.tool + pattern + `: "` + tc.tool + `" is no tool: want some of `; !tc.ok && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "run_command")) {
					t.Errorf("%s %s%s: got %v, want %q and the names", flag, tc.tool, pattern, err, want)
				}
			}
		}
	}
}
