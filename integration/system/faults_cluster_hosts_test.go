package system

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// try runs a command line.
func try(line string, args ...any) error {
	fields := strings.Fields(fmt.Sprintf(line, args...))
	out, err := exec.Command(fields[0], fields[1:]...).CombinedOutput() //nolint:gosec // the test wrote it
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", fields, err, out)
	}
	return nil
}

// hosts are network namespaces on a bridge, each with an address.
type hosts struct {
	t     *testing.T
	name  string
	addrs []string
}

// makeHosts makes hosts, which are removed with the test. The test is skipped without root.
// The letter distinguishes them from those of other tests.
func makeHosts(t *testing.T, letter byte, n int) *hosts {
	t.Helper()
	runtest.Root(t)
	runtest.Tools(t, map[string]string{"ip": "iproute2"}, "ip")
	h := &hosts{t: t, name: fmt.Sprintf("%c%d", letter, os.Getpid()%100000), addrs: make([]string, n)}
	net := fmt.Sprintf("10.%d.%d", 100+letter, os.Getpid()%250)
	t.Cleanup(func() {
		_ = try("ip link del %s", h.name)
		for i := range h.addrs {
			_ = try("ip netns del %s", h.ns(i))
		}
	})
	lines := []string{fmt.Sprintf("ip link add %s type bridge", h.name), fmt.Sprintf("ip addr add %s.1/24 dev %s", net, h.name), fmt.Sprintf("ip link set %s up", h.name)}
	for i := range h.addrs {
		h.addrs[i] = fmt.Sprintf("%s.%d", net, 11+i)
		ns, out, in := h.ns(i), fmt.Sprintf("%so%d", h.name, i), fmt.Sprintf("%si%d", h.name, i)
		lines = append(lines,
			"ip netns add "+ns,
			fmt.Sprintf("ip link add %s type veth peer name %s netns %s", out, in, ns),
			fmt.Sprintf("ip link set %s master %s up", out, h.name),
			fmt.Sprintf("ip -n %s addr add %s/24 dev %s", ns, h.addrs[i], in),
			fmt.Sprintf("ip -n %s link set lo up", ns),
			fmt.Sprintf("ip -n %s link set %s up", ns, in))
	}
	for _, line := range lines {
		if err := try("%s", line); err != nil {
			t.Fatalf("hosts: %v", err)
		}
	}
	return h
}

// servers are the first three hosts.
func (h *hosts) servers() [3]string { return [3]string(h.addrs[:3]) }

func (h *hosts) ns(i int) string { return fmt.Sprintf("%sh%d", h.name, i) }

// inside is the command line that runs a process on the i-th host.
func (h *hosts) inside(i int, cmd []string) []string {
	return append([]string{"ip", "netns", "exec", h.ns(i)}, cmd...)
}

// part drops the packets between the i-th host and the others, both ways. The test's own host reaches all.
func (h *hosts) part(i int) { h.routes("add", i) }

// heal undoes part.
func (h *hosts) heal(i int) { h.routes("del", i) }

func (h *hosts) routes(verb string, i int) {
	h.t.Helper()
	for j := range h.addrs {
		if j == i {
			continue
		}
		for _, direction := range [][2]int{{i, j}, {j, i}} {
			runtest.NoError(h.t, try("ip -n %s route %s blackhole %s/32", h.ns(direction[0]), verb, h.addrs[direction[1]]))
		}
	}
}
