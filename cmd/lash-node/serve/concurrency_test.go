package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/internal/runtest"
)

// TestConcurrencyFlag reads the classes of the flag, from the command line and from a configuration.
func TestConcurrencyFlag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config any
		args   []string
		want   concurrency
		err    string
	}{
		"default":       {nil, nil, concurrency{256, 256, 1024}, ""},
		"number":        {nil, []string{"--concurrency", "8"}, concurrency{8, 0, 0}, ""},
		"one_class":     {nil, []string{"--concurrency=task=3"}, concurrency{0, 0, 3}, ""},
		"tool":          {nil, []string{"--concurrency", "tool=4"}, concurrency{0, 4, 0}, ""},
		"both":          {nil, []string{"--concurrency", "turn=2,task=3"}, concurrency{2, 0, 3}, ""},
		"config_number": {8, nil, concurrency{8, 0, 0}, ""},
		"config_text":   {"turn=2,task=3", nil, concurrency{2, 0, 3}, ""},
		"flag_wins":     {8, []string{"--concurrency", "9"}, concurrency{9, 0, 0}, ""},
		"zero":          {nil, []string{"--concurrency", "0"}, concurrency{}, "at least 1"},
		"negative":      {nil, []string{"--concurrency=turn=-1"}, concurrency{}, "at least 1"},
		"fraction":      {1.5, nil, concurrency{}, "want a number"},
		"class":         {nil, []string{"--concurrency", "api=1"}, concurrency{}, "no such class"},
		"role":          {nil, []string{"--set", "roles=turn,fly"}, concurrency{}, "roles"},
		"config_list":   {[]int{1}, nil, concurrency{}, "concurrency"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve"}, tc.args...)
			if tc.config != nil {
				file := filepath.Join(t.TempDir(), "config.json")
				data, err := json.Marshal(map[string]any{"concurrency": tc.config})
				if err == nil {
					err = os.WriteFile(file, data, 0o600)
				}
				runtest.NoError(t, err)
				args = append(args, "--config", file)
			}
			var cli struct {
				Serve Command `cmd:""`
			}
			parser, err := kong.New(&cli)
			runtest.NoError(t, err)
			_, err = parser.Parse(args)
			switch {
			case tc.err == "" && (err != nil || cli.Serve.Concurrency != tc.want):
				t.Errorf("got %+v, %v, want %+v", cli.Serve.Concurrency, err, tc.want)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("got %v, want an error with %q", err, tc.err)
			}
		})
	}
}
