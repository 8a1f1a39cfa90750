package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongLostQuorumIsNamed stops two of three servers. A chat and other commands say that JetStream does not answer. None of them
// advises to start a node.
func TestLongLostQuorumIsNamed(t *testing.T) {
	t.Parallel()
	cluster := bustest.StartCluster(t)
	b, err := bus.Open(limited(t), bus.Config{URL: cluster.URL, Replicas: 3})
	runtest.NoError(t, err)
	b.Close()
	cluster.Servers[0].Stop()
	cluster.Servers[1].Stop()
	last := cluster.Servers[2].URL()
	var errs string
	var code int
	bustest.Eventually(t, "the server notices that the others are gone", func() bool { // it answers until then
		_, errs, code = lashNode(t, "approvals", "--nats", last)
		return code != exitOK
	})
	if !strings.Contains(errs, "but JetStream does not answer: of a cluster") || strings.Contains(errs, "starts one") {
		t.Errorf("approvals: got %d, %q, want what does not answer", code, errs)
	}
	s := newPiped(t, "hello\n", "--nats", last)
	said := false
	for !said && s.err.Scan() { // the chat waits without a limit, and says so
		said = strings.HasPrefix(s.err.Text(), "waiting for JetStream, which does not answer")
		if strings.Contains(s.err.Text(), "starts one") {
			t.Errorf("chat: got %q, want what does not answer", s.err.Text())
		}
	}
	if !said {
		t.Error("chat: it ended and did not name what it waits for")
	}
	_ = s.cmd.Process.Signal(os.Signal(syscall.SIGKILL))
	_ = s.cmd.Wait()
}
