package program_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLine covers the builds that Go stamps: of a clean clone, of a modified one, of a module version, of go run, and
// without build information.
func TestLine(t *testing.T) {
	t.Parallel()
	const revision = "7a8b4f14c2d84c1f9c3f0a4f5b7f6f1d2c3b4a59"
	for name, tc := range map[string]struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		"revision": {"(devel)", []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "false"}}, "p (devel), go1.26.1, revision " + revision},
		"modified": {"v0.1.1-0.20261126020000-7a8b4f14c2d8+dirty", []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}, "p v0.1.1-0.20261126020000-7a8b4f14c2d8+dirty, go1.26.1, revision " + revision + "+"},
		"none":     {"(devel)", []debug.BuildSetting{{Key: "-buildmode", Value: "exe"}}, "p (devel), go1.26.1, revision unknown: go build in a clone of the repository stamps it"},
		"module":   {"v1.2.3", nil, "p v1.2.3, go1.26.1, revision unknown: go build in a clone of the repository stamps it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := program.VersionLine("p", &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: tc.module}, Settings: tc.settings})
			runtest.Equal(t, "got", got, tc.want)
		})
	}
	if got, want := program.VersionLine("p", nil), "p (no build information)"; got != want {
		t.Errorf("without information: got %q, want %q", got, want)
	}
	if got := program.Build(); strings.Contains(got, "clone") || !strings.Contains(program.VersionOf("p"), got) {
		t.Errorf("build: got %q, want the version line without advice", got)
	}
	if got := program.VersionOf("p"); !strings.HasPrefix(got, "p ") || !strings.Contains(got, ", go") {
		t.Errorf("of this test: got %q, want the version of Go in it", got)
	}
}
