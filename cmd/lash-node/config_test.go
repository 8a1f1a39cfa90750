package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/internal/runtest"
)

// parse fills the flags of serve from a configuration file.
func parse(t *testing.T, file []byte) (*serve.Command, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	runtest.NoError(t, os.WriteFile(path, file, 0o600))
	var into cli
	s := &streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
	parser, err := line(&into).Parser(s, func(int) {})
	runtest.NoError(t, err)
	_, err = parser.Parse([]string{"serve", "--config", path})
	return &into.Serve, err
}

// TestConfigValues sets each type of flag to a value that it refuses.
func TestConfigValues(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"archive-after": `"soon"`, "max_hot": `"many"`, "profile": `"never"`, "roles": `["turn","sing"]`, "concurrency": `"turn=x"`,
		"debug": `"perhaps"`, "otlp-ratio": `"half"`, "replicas": `[1,2]`, "config": `"x"`, "no-such": `1`,
	} {
		if _, err := parse(t, []byte(`{"`+key+`":`+value+`}`)); err == nil || !names(err, key) {
			t.Errorf("%s of %s: got %v, want an error that names it", key, value, err)
		}
	}
	got, err := parse(t, []byte(`{"archive-after":"3s","max_hot":7,"roles":["turn","api"],"debug":true,"concurrency":"turn=2","store":"/x"}`))
	if err != nil || got.ArchiveAfter.Seconds() != 3 || got.MaxHot != 7 || strings.Join(got.Roles, " ") != "turn api" || !got.Debug || got.Concurrency.Turn != 2 || got.Store != "/x" {
		t.Errorf("got %+v, %v, want what the file says", got, err)
	}
}

// TestConfigNamesFile reads files that are no configuration. The error names the file.
func TestConfigNamesFile(t *testing.T) {
	t.Parallel()
	for _, file := range []string{`vm`, `[]`, `{"no-such":1}`} {
		if _, err := parse(t, []byte(file)); err == nil || !strings.Contains(err.Error(), "config.json: ") {
			t.Errorf("%s: got %v, want an error that names the file", file, err)
		}
	}
}

// TestConfigPrinted has the settings that lash-node config prints in a file, with the comments around them away: they are known, and those
// with a default have it.
func TestConfigPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if code := run(t.Context(), []string{"config"}, &streams{Out: &out, Err: io.Discard}); code != exitOK {
		t.Fatalf("got exit code %d", code)
	}
	values := func(file string) serve.Command {
		t.Helper()
		c, err := parse(t, []byte(file))
		runtest.WantError(t, file, err, nil)
		c.Config = "" // has the file's name
		return *c
	}
	bare := values("{}")
	if got := values(out.String()); !reflect.DeepEqual(got, bare) {
		t.Errorf("got %+v for the file as it is, want the defaults, %+v", got, bare)
	}
	lines := regexp.MustCompile(`(?m)^\t// ("[a-z-]+": (.*)),$`).FindAllStringSubmatch(out.String(), -1)
	if len(lines) < 36 {
		t.Errorf("got %d settings, want all", len(lines))
	}
	placeholder := regexp.MustCompile(`^(\[?"[A-Z]+"\]?|true)$`)
	for _, line := range lines {
		if line[2] == `"BYTES"` || line[2] == `"N"` {
			continue
		}
		if got := values("{" + line[1] + "}"); !placeholder.MatchString(line[2]) && !reflect.DeepEqual(got, bare) {
			t.Errorf("%s: got %+v, want what is without it, %+v", line[1], got, bare)
		}
	}
}

// FuzzConfig fills the real flags from configuration files. Nothing panics. Input that is no JSON object is refused.
// The error of a bad value names its key.
func FuzzConfig(f *testing.F) {
	for _, file := range []string{
		`{"store":"x","archive-after":"3s","roles":["turn"]}`, `[]`, `{"store":null,"debug":1}`, "{\n// x\n\"store\": \"x\",\n}", `{"concurrency":{"turn":2}}`,
		`{"concurrency":"turn=2,task=0"}`, `{"grace":-1,"max-hot":1e99}`, `{"roles":[["turn"]],"plugins":""}`, `{"otlp-ratio":"NaN"}`, `{"store":"` + "\u0000" + `"}`,
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := parse(t, file)
		var written map[string]json.RawMessage
		standard, bad := hujson.Standardize(slices.Clone(file))
		if bad != nil || json.Unmarshal(standard, &written) != nil || len(file) > program.MaxSettings {
			if err == nil {
				t.Errorf("%q: got no error", file)
			}
			return
		}
		if err == nil {
			return
		}
		for key := range written {
			if names(err, key) {
				return
			}
		}
		t.Errorf("%q: got %v, want an error that names a key", file, err)
	})
}

// names reports whether an error contains a key, as a flag or quoted.
func names(err error, key string) bool {
	same := func(s string) string { return strings.ReplaceAll(s, "-", "_") }
	output, key := same(err.Error()), same(key)
	quoted := strconv.Quote(key)
	return strings.Contains(output, key) || strings.Contains(output, quoted[1:len(quoted)-1])
}
