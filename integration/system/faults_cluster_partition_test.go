package system

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestPartition disconnects the leader of a session's stream from the other two servers. It acknowledges no
// append, and the others continue. After the reconnect every server has the same history. The test runs alone:
// elections of starved servers take minutes.
func TestPartition(t *testing.T) {
	hosts := makeHosts(t, 'l', 3)
	dir := t.TempDir()
	p := clusterOn(t, hosts.servers(), [3]string{filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")}, hosts.inside)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // connections whose packets vanished try again ever more rarely
	defer cancel()
	all := p.open()
	p.awaitReplicas(ctx, all)
	const id = "s"
	host := func(b *bus.Bus) *session.Host {
		h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
		runtest.NoError(t, err)
		return h
	}
	_, err := host(all).Create(ctx, api.CreateRequest{ID: id})
	runtest.NoError(t, err)
	send := func(ctx context.Context, h *session.Host, text string) error {
		_, err := h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages(text), IdempotencyKey: text})
		return err
	}
	runtest.NoError(t, send(ctx, host(all), "before"))
	isolated := p.leader(ctx, all, id)
	minority, majority := host(p.open(isolated)), host(p.open((isolated+1)%3, (isolated+2)%3))
	runtest.NoError(t, send(ctx, minority, "before too"))
	hosts.part(isolated)
	brief, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if err := send(brief, minority, "alone"); err == nil {
		t.Error("an append to a server that is alone: got it acknowledged")
	}
	insist(ctx, t, func() error { return send(ctx, majority, "together") }) // until there is a new leader
	hosts.heal(isolated)
	p.awaitReplicas(ctx, all)
	insist(ctx, t, func() error { return send(ctx, minority, "after") })
	var first [][]byte
	for i := range p.cfg {
		list := commitsOf(t, p.open(i).Log(), id)
		if first == nil {
			first = list
		}
		if !equalBytes(first, list) {
			t.Errorf("server %d: got another history of %d commits, want %d", i+1, len(list), len(first))
		}
	}
	s, err := host(all).State(ctx, id)
	runtest.NoError(t, err)
	nodes, err := s.AllNodes()
	runtest.NoError(t, err)
	messages := make(map[string]int)
	for i := range nodes {
		messages[nodes[i].Message.Text()]++
	}
	for text, want := range map[string]int{"before": 1, "before too": 1, "together": 1, "after": 1} {
		runtest.Equal(t, text, messages[text], want)
	}
	if messages["alone"] > 1 {
		t.Errorf("what was not acknowledged: got it %d times", messages["alone"])
	}
	harness.VerifyHistory(t, all, id)
}

// insist repeats a request while its outcome is unknown.
func insist(ctx context.Context, t *testing.T, do func() error) {
	t.Helper()
	for {
		err := do()
		if err == nil {
			return
		}
		t.Logf("once more after: %v", err)
		if ctx.Err() != nil || !errors.Is(err, events.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
	}
}

// commitsOf lists every commit of a session, encoded.
func commitsOf(t *testing.T, log events.Log, id events.SessionID) (list [][]byte) {
	t.Helper()
	for e, err := range log.Read(harness.Context(t), id, 1) {
		runtest.NoError(t, err)
		data, err := events.Encode(e.Commit)
		runtest.NoError(t, err)
		list = append(list, data)
	}
	return list
}

func equalBytes(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte{0}), bytes.Join(b, []byte{0}))
}

// TestDiskFull fills the disk of one server in the middle of turns. The turns continue. When the disk has space
// again and the server is restarted, it has every commit.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	runtest.Root(t)
	dir := t.TempDir()
	small := filepath.Join(dir, "1")
	runtest.NoError(t, os.Mkdir(small, 0o700))
	if err := try("mount -t tmpfs -o size=64m tmpfs %s", small); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		runtest.WantError(t, "try", try("umount %s", small), nil)
	})
	store := filepath.Join(small, "store")
	p := clusterOn(t, [3]string{"127.0.0.1", "127.0.0.1", "127.0.0.1"}, [3]string{store, filepath.Join(dir, "2"), filepath.Join(dir, "3")}, nil)
	underLoss(t, p, 2, func(ctx context.Context, l *loss) {
		l.after(ctx, lossSessions*perTurn)
		ballast := filepath.Join(small, "ballast")
		if err := fill(ballast); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: got %v, want %v", err, syscall.ENOSPC)
		}
		l.after(ctx, lossSessions*lossTurns*perTurn/2)
		runtest.NoError(t, os.Remove(ballast))
		p.kill(0)
		p.start(0)
		p.awaitReplicas(ctx, l.b)
	})
}

// fill writes until the disk is full.
func fill(name string) error {
	f, err := os.Create(name) //nolint:gosec // it is the test's own
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // no test reads it
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(chunk)
	}
	for one := []byte{0}; err != nil && len(one) == 1; { // the rest of the last page
		if _, last := f.Write(one); last != nil {
			return err
		}
	}
	return io.ErrUnexpectedEOF
}
