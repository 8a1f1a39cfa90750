package serve

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
)

func readEnvironments(t *testing.T, text string) (plugin.Environments, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "environments.json")
	runtest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return (&PluginFlags{Root: "/srv", CommandTimeout: time.Minute, Environments: file}).environments()
}

// TestEnvironments reads a file of environments; the default one has --root and setting command-timeout.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := plugin.Environment{Dir: "/srv", Timeout: time.Minute}
	all, err := (&PluginFlags{Root: "/srv", CommandTimeout: time.Minute}).environments()
	if want := (plugin.Environments{"default": root}); err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("without a file: got %+v, %v, want %+v", all, err, want)
	}
	all, err = readEnvironments(t, `{"environments": {"default": {"variables": {"A": "b"}}, "ci": {"directory": "`+dir+`", "by_call": true, "timeout": "2s", "max_timeout": "3m", "max_output_bytes": 9, "max_cpu_time": "5s", "max_memory_bytes": 6, "code_timeout": "4s"}}}`)
	root.Variables = map[string]string{"A": "b"}
	want := plugin.Environments{"default": root, "ci": {Dir: dir, ByCall: true, Timeout: 2 * time.Second, MaxTime: 3 * time.Minute, MaxOutput: 9, CPU: 5 * time.Second, Memory: 6, CodeTime: 4 * time.Second}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("with a file: got %+v, %v, want %+v", all, err, want)
	}
	for _, c := range []struct {
		names []string
		want  string
	}{{nil, ""}, {[]string{"ci"}, ""}, {[]string{"default"}, `by_call of ci: is "ci", want one of ["default"]`}} {
		if err := checkByCall(all, &lock.Locks{Environments: c.names}); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("locks %v: got %v, want %q", c.names, err, c.want)
		}
	}
}

// TestEnvironmentsRefused: files that are refused, with the place of the mistake.
func TestEnvironmentsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"environments": {"a b": {"directory": "/"}}}`:                               `"a b": name: `,
		`{"environments": {"ci": {}}}`:                                                `"ci": directory: is "", want an absolute path`,
		`{"environments": {"ci": {"directory": "sub"}}}`:                              `"ci": directory: is "sub", want an absolute path`,
		`{"environments": {"ci": {"directory": "/no/such"}}}`:                         `"ci": directory: stat /no/such`,
		`{"environments": {"ci": {"directory": "/etc/hosts"}}}`:                       `"ci": directory: /etc/hosts is no directory`,
		`{"environments": {"default": {"directory": "/"}}}`:                           `"default": directory: is that of --root`,
		`{"environments": {"ci": {"directory": "/", "timeout": "2"}}}`:                `"ci": timeout: is "2"`,
		`{"environments": {"ci": {"directory": "/", "max_timeout": "-2s"}}}`:          `"ci": max_timeout: is "-2s"`,
		`{"environments": {"ci": {"directory": "/", "code_timeout": "0s"}}}`:          `"ci": code_timeout: is "0s"`,
		`{"environments": {"ci": {"directory": "/", "max_output_bytes": -1}}}`:        `"ci": max_output_bytes: is negative`,
		`{"environments": {"ci": {"directory": "/", "max_memory_bytes": -1}}}`:        `"ci": max_memory_bytes: is negative`,
		`{"environments": {"ci": {"directory": "/", "max_cpu_time": "1"}}}`:           `"ci": max_cpu_time: is "1"`,
		`{"environments": {"ci": {"directory": "/", "variables": {"A=B": "x"}}}}`:     `"ci": variables: "A=B" is no variable`,
		`{"environments": {"ci": {"directory": "/", "variables": {"A": "x\u0000"}}}}`: `"ci": variables: "A" is no variable`,
		`{"environments": {"ci": {"directory": "/", "cpu": 1}}}`:                      `unknown field "cpu"`,
		`{"ci": {"directory": "/"}}`:                                                  `unknown field "ci"`,
		`{} {}`:                                                                       `there is more behind the object`,
	} {
		if _, err := readEnvironments(t, text); err == nil || !strings.HasPrefix(err.Error(), "setting environments ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
