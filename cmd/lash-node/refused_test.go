package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// roles starts a server with a user for each role, with the permissions of deploy/nats: a node may do everything, a
// host sends requests to nodes and reads, an auditor reads. It returns their addresses.
func roles(t *testing.T) (node, host, auditor string) {
	t.Helper()
	reads := []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.lash-archive", "$JS.API.DIRECT.GET.>"}
	may := func(publish ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}}
	}
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "node", Password: "x"},
			{Username: "host", Password: "x", Permissions: may(append(reads, "lash.api.*")...)},
			{Username: "auditor", Password: "x", Permissions: may(reads...)},
		},
	})
	runtest.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	at := func(user string) string { return "nats://" + user + ":x@" + ns.Addr().String() }
	return at("node"), at("host"), at("auditor")
}

// TestLongRoleRefusalNamesTheRole runs commands that the role of a user does not permit. Each command ends, and names the role that
// permits it.
func TestLongRoleRefusalNamesTheRole(t *testing.T) {
	t.Parallel()
	asNode, asHost, asAuditor := roles(t)
	node := serveModel(t, newScriptedModel(t).url, "--nats", asNode, "--store", t.TempDir(), "--plugins", "default,files", "--root", t.TempDir())
	defer node.stop(t, syscall.SIGTERM)
	b, err := bus.Open(limited(t), bus.Config{URL: asNode})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	h, err := session.New(session.Config{Bus: b, Actor: "test"})
	if err == nil {
		_, err = h.Create(limited(t), api.CreateRequest{ID: "s"})
	}
	if err == nil {
		_, err = h.Submit(limited(t), "s", api.Ask("write a"))
	}
	if err == nil {
		err = b.PutDeadLetter(limited(t), &bus.DeadLetter{Session: "d", Attempts: 8, At: 86_400_000, Worker: "w1"})
	}
	runtest.NoError(t, err)
	listed, errs, code := lashNode(t, "approvals", "--nats", asHost, "--wait", "1m", "s")
	if code != exitOK {
		t.Fatalf("approvals: got %d, %s", code, errs)
	}
	call := strings.Fields(listed)[1]
	for _, want := range []string{" --session s, as a user of role host\n", " s " + call + ", with the credentials and the inbox of a user of role node\n"} {
		runtest.Contains(t, "approvals", listed, want)
	}
	for _, tc := range []struct{ at, line, role string }{
		{asHost, "erase s --reason x --yes", "node"},
		{asHost, "approve s " + call, "node"},
		{asHost, "dead ls", "node"},
		{asHost, "dead show d", "node"},
		{asHost, "dead retry d", "node"},
		{asHost, "dead drop d", "node"},
		{asAuditor, "erase s --reason x --yes", "node"},
		{asAuditor, "fork s --at 1", "host"},
	} {
		_, errs, code := lashNode(t, append(strings.Fields(tc.line), "--nats", tc.at)...)
		if want := "a user of role " + tc.role + " has it"; code != exitFailed || !strings.Contains(errs, want) || strings.Count(errs, "violation") != 1 {
			t.Errorf("%s: got %d, %q, want %q", tc.line, code, errs, want)
		}
	}
	for at, want := range map[string]string{asAuditor: "a user of role host has it", asHost: "heard: hi"} {
		out, errs, _ := pipeInto(t, "hi\n", "--nats", at)
		if !strings.Contains(out+errs, want) {
			t.Errorf("chat: got %q, %q, want %q", out, errs, want)
		}
	}
}
