package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

// TestLongRedact redacts a session of a served node from another process. The session can be read, not continued, and a copy of it
// begins before the redaction.
func TestLongRedact(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	h := clientOf(t, node)
	said := api.AppendNode{Message: &events.Message{ID: "n1", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "the secret"}}}}
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s", Nodes: []api.AppendNode{said}})
	runtest.NoError(t, err)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"s"}, exitFailed, "--reason"},
		{[]string{"s", "--reason", "asked to", "--yes"}, exitFailed, "--kind KIND or --event ID"},
		{[]string{"s", "--kind", "graph.appended", "--reason", "asked to"}, exitFailed, ".1  graph.appended\n lash-node: nothing is done: --yes redacts 1 event of session s, which cannot be undone\n"},
		{[]string{"s", "--kind", "graph.*", "--reason", "asked to", "--json"}, exitFailed, `"kind": "graph.appended"`},
		{[]string{"s", "--kind", "graph.appendix", "--reason", "asked to"}, exitFailed, "no event of session s that can be redacted has this kind or id: its kinds are graph.appended, session.opened: lash-replay events --json lists them"},
		{[]string{"nobody", "--kind", "graph.appended", "--reason", "asked to", "--yes"}, exitFailed, "nobody"},
		{[]string{"s", "--kind", "graph.appended", "--reason", "asked to", "--yes"}, exitFailed, `its status is "open": --close closes it`},
		{[]string{"s", "--kind", "graph.appendix", "--reason", "asked to", "--yes", "--close"}, exitFailed, "no event of session s that can be redacted"},
		{[]string{"s", "--kind", "graph.appended", "--reason", "asked to", "--yes"}, exitFailed, `its status is "open": --close closes it`}, // still
		{[]string{"s", "--kind", "*", "--reason", "asked to", "--yes", "--close"}, exitFailed, "name some of its kinds: graph.appended, session.closed, session.opened: lash-replay events"},
		{[]string{"s", "--kind", "graph.appended", "--reason", "asked to", "--yes", "--as", "ann"}, exitOK, "redacted: 1 event of session s ("},
	} {
		out, errs, code := lashNode(t, append([]string{"redact", "--store", node.store}, c.args...)...)
		if code != c.code || !strings.Contains(out+" "+errs, c.want) {
			t.Errorf("%q: got code %d, %q %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	out, _, code := lashNode(t, "redact", "--store", node.store, "s", "--kind", "graph.*", "--reason", "again", "--yes", "--json")
	var got redactedSession
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || got.By != "ann" || got.Reason != "asked to" || got.Events != 1 {
		t.Fatalf("as JSON: got code %d, %s, %v, want the first record", code, out, err)
	}
	public, err := os.ReadFile(filepath.Join(keyring.Dir(node.store), keyring.TenantPub))
	runtest.NoError(t, err)
	tenant, err := note.NewVerifier(strings.TrimSpace(string(public)))
	runtest.NoError(t, err)
	if signed, _, err := proof.ReadRedaction([]byte(got.Note), []note.Verifier{tenant}); err != nil || signed.By != "ann" || signed.Session != "s" {
		t.Errorf("signed record: got %+v, %v", signed, err)
	}
	h = clientOf(t, node) // which has not read the session
	state, err := h.State(limited(t), "s")
	runtest.NoError(t, err)
	if path, err := state.Path(); err != nil || len(path) != 0 || state.Redacted == 0 {
		t.Errorf("state: got %d nodes, redacted from %d on, %v, want none", len(path), state.Redacted, err)
	}
	if _, err := h.Create(limited(t), api.CreateRequest{ID: "copy", Start: api.StartExisting, From: "s"}); err == nil || !strings.Contains(err.Error(), "redacted from sequence") {
		t.Errorf("copy: got %v, want a refusal", err)
	}
	node.stop(t, syscall.SIGTERM)
}
