package external

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// place is where the cases of the plugin service run: on one server, or on three.
type place struct {
	server   *busembed.Server
	url      string
	prefix   string // of subjects and streams, so that cases share servers
	replicas int
	program  func(context.Context) *exec.Cmd // that is the plugin notes; nil: this test binary
}

func oneServer(t *testing.T) place {
	t.Helper()
	server := bustest.Server(t, busembed.Config{Listen: true})
	return place{server: server, url: server.URL(), prefix: "lash", replicas: 1}
}

func (p place) open(t *testing.T) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{URL: p.url, Prefix: p.prefix, Replicas: p.replicas})
	runtest.WantError(t, "open", err, nil)
	t.Cleanup(b.Close)
	return b
}

// start returns a system without nodes and plugins.
func (p place) start(t *testing.T, script ...harness.Step) *setting {
	t.Helper()
	return &setting{System: harness.StartWith(t, p.server, p.open(t), script...), on: p, runs: filepath.Join(t.TempDir(), "runs")}
}

// serviceCase is a case of the catalogue of the plugin service.
type serviceCase struct {
	name string // its id and behaviour
	run  func(t *testing.T, on place)
}

// serviceCases has the cases of all files of this folder, the longest ones first.
func serviceCases() (all []serviceCase) {
	for _, list := range [][]serviceCase{faultCases, cancelCases, callCases, registrationCases, operatorCases, lifecycleCases, hookCases, stdioCases} {
		all = append(all, list...)
	}
	return all
}

// TestSmokePluginService runs each case on a server of its own.
func TestSmokePluginService(t *testing.T) {
	t.Parallel()
	for _, c := range serviceCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, oneServer(t))
		})
	}
}

// fewer is how often a case repeats something: n times in Go on one server, and a fifth of it elsewhere.
func (p place) fewer(n int) int {
	if p.replicas > 1 || p.program != nil {
		return n / 5
	}
	return n
}

// TestLongPluginServiceOnThreeServers runs cases on three servers that replicate.
func TestLongPluginServiceOnThreeServers(t *testing.T) {
	t.Parallel()
	cluster := bustest.StartCluster(t)
	for _, c := range serviceCases() {
		id, _, _ := strings.Cut(c.name, "_")
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, place{server: cluster.Servers[0], url: cluster.URL, prefix: strings.ToLower(id), replicas: 3})
		})
	}
}
