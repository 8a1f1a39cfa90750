package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongChatNodeKilled kills the node that runs a turn. Another node continues the turn, and the chat shows it.
func TestLongChatNodeKilled(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	runtest.NoError(t, err)
	defer server.Stop()
	args := []string{"--nats", server.URL(), "--store", t.TempDir(), "--plugins", "default"}
	first := serveModel(t, model.url, append(args, "--name", "first")...)
	ann := sit(t, nil, "--nats", server.URL())
	ann.session()
	ann.send("hold on")
	model.awaitBlocked(t)
	ann.await("the first line")
	runtest.NoError(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()
	second := serveModel(t, model.url, append(args, "--name", "second")...)
	defer second.stop(t, syscall.SIGTERM)
	model.awaitBlocked(t)
	close(model.release)
	ann.await("the reply above was cut off and does not count", "another node goes on with the turn (attempt 2)", "the first line", "the second line ends here")
	ann.send("still there?")
	ann.await("ann > still there?", "heard: still there?")
	ann.quit(ctrlD, exitOK)
}

// TestLongChatNodeLeaves stops the only node while it runs a turn; the servers stay. A terminal and a pipe say what they wait for.
func TestLongChatNodeLeaves(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	runtest.NoError(t, err)
	defer server.Stop()
	args := []string{"--nats", server.URL(), "--store", t.TempDir(), "--plugins", "default", "--set", "grace=100ms"}
	first := serveModel(t, model.url, args...)
	piped := newPiped(t, "hold on\n", "--nats", server.URL())
	id := piped.session()
	model.awaitBlocked(t)
	ann := sit(t, nil, "--nats", server.URL(), "--session", id)
	ann.session()
	piped.until("lash-node: waiting for the model")
	first.stop(t, syscall.SIGTERM)
	const says = "waiting for a node that goes on with the turn: lash-node serve"
	piped.until("lash-node: " + says)
	ann.await(strings.TrimPrefix(says, "waiting for a")) // the terminal keeps the beginning of the line
	second := serveModel(t, model.url, args...)
	defer second.stop(t, syscall.SIGTERM)
	close(model.release)
	ann.await("another node goes on with the turn (attempt 2)", "the second line ends here")
	if err := piped.cmd.Wait(); err != nil || !strings.Contains(piped.out.String(), "the second line ends here") {
		t.Errorf("the pipe: got %v, %q, want the reply", err, piped.out.String())
	}
	ann.quit(ctrlD, exitOK)
}
