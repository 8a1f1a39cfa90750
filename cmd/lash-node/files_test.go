package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestFlagsOfFiles compares the units, the compose file and the sample configuration with the flags of lash-node.
func TestFlagsOfFiles(t *testing.T) {
	t.Parallel()
	var help, settings strings.Builder
	s := &streams{Out: &help, Err: io.Discard, Env: func(string) string { return "" }}
	if got := run(t.Context(), []string{"serve", "--help"}, s); got != exitOK {
		t.Fatalf("got exit code %d", got)
	}
	if got := run(t.Context(), []string{"config"}, &streams{Out: &settings, Err: io.Discard}); got != exitOK {
		t.Fatalf("got exit code %d", got)
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", name))
		runtest.NoError(t, err)
		return string(data)
	}
	var flags []string
	for _, file := range []string{"compose.yaml", "systemd/lash-node@.service"} {
		for _, m := range regexp.MustCompile(`--(?:set=)?([a-z][a-z-]+)[= ][^c]`).FindAllStringSubmatch(read(file), -1) {
			flags = append(flags, m[1])
		}
	}
	var sample map[string]any
	runtest.NoError(t, json.Unmarshal([]byte(read("lash-node.json")), &sample))
	for flag := range sample {
		flags = append(flags, flag)
	}
	if len(flags) < 8 {
		t.Errorf("flags: got %v, want more", flags)
	}
	for _, flag := range flags {
		if !strings.Contains(help.String(), "--"+flag+" ") && !strings.Contains(help.String(), "--"+flag+"=") && !strings.Contains(settings.String(), "\""+flag+"\": ") {
			t.Errorf("%s: lash-node serve has no such flag or setting", flag)
		}
	}
}
