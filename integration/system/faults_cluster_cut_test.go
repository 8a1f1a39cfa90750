package system

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// startProcess starts a node in a process on a host, with the addresses of these servers.
func (l *loss) startProcess(ctx context.Context, i int, hosts *hosts, host int, only ...int) *child {
	l.t.Helper()
	cfg := childConfig{URL: l.p.urlOf(only...), Replicas: 3, Journal: l.journal, Round: 1 + i}
	c := startChild(l.t, "TestChildNode", cfg, func(cmd []string) []string { return hosts.inside(host, cmd) })
	l.ids[i] = events.WorkerID(c.awaitLine(ctx, "serves"))
	l.stops[i] = func(ctx context.Context) {
		c.signal(syscall.SIGTERM)
		c.exits(ctx)
	}
	return c
}

// TestPartitionTurns disconnects the server that leads a session's stream while a node that is connected to it
// runs turns: the node finds another server by itself. Then it disconnects the node in the middle of a turn, and a
// watcher with it: another node continues the turn. After the reconnect the watcher receives each commit once.
func TestPartitionTurns(t *testing.T) { // alone: elections of starved servers take minutes
	const away, near = 3, 4 // hosts of nodes
	hosts := makeHosts(t, 'n', 5)
	dir := t.TempDir()
	p := clusterOn(t, hosts.servers(), [3]string{filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")}, hosts.inside)
	ctx := harness.Context(t)
	all := p.open()
	p.awaitReplicas(ctx, all)
	h, err := session.New(session.Config{Bus: all, Plugins: session.NoPlugins()})
	runtest.WantError(t, "host", err, nil)
	id := workloadSession(0)
	_, err = h.Create(ctx, api.CreateRequest{ID: id})
	runtest.WantError(t, "create", err, nil)
	isolated := p.leader(ctx, all, id)
	p.only = []int{(isolated + 1) % 3, (isolated + 2) % 3} // of the client and the test
	sum := underLoss(t, p, 0, func(ctx context.Context, l *loss) {
		far := l.startProcess(ctx, 0, hosts, away, append([]int{isolated}, p.only...)...)
		l.startProcess(ctx, 1, hosts, near, p.only...)
		watcher := startChild(t, "TestChildWatcher", childConfig{URL: p.url, Replicas: 3, Watch: id}, func(cmd []string) []string { return hosts.inside(away, cmd) })
		watcher.awaitLine(ctx, "saw 1")
		l.further(ctx, lossSessions)
		p.lead(ctx, l.b, id, isolated)
		l.turnOf(ctx, l.ids[0])
		hosts.part(isolated)
		l.further(ctx, 2*lossSessions)
		l.turnOf(ctx, l.ids[0]) // it has found another server
		hosts.heal(isolated)
		p.awaitReplicas(ctx, l.b)
		l.further(ctx, lossSessions)

		last := l.state(ctx, id).Seq
		far.signal(syscall.SIGUSR1)
		name, _, _ := strings.Cut(far.awaitLine(ctx, "holds"), "/")
		blocked := l.state(ctx, events.SessionID(name)).Turn()
		hosts.part(away)
		l.until(ctx, "takeover of "+string(blocked.ID), func() bool {
			now := l.state(ctx, events.SessionID(name)).Turn()
			return now == nil || now.ID != blocked.ID || now.Worker != blocked.Worker
		})
		l.further(ctx, 2*lossSessions)
		far.release()
		l.until(ctx, "history that the watcher misses", func() bool { return l.state(ctx, id).Seq > last })
		hosts.heal(away)
		l.turnOf(ctx, l.ids[0])
		watcher.wantCommits(ctx, 2, l.state(ctx, id).Seq)
	})
	if sum.takeovers == 0 {
		t.Errorf("got %+v, want a takeover from the node that was cut off", sum)
	}
}
