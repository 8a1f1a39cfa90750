package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

// TestLongErase erases a session of a served node from another process.
func TestLongErase(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--set", "retain=48h")
	h := clientOf(t, node)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"s"}, exitFailed, "--reason"},
		{[]string{"s", "--reason", "asked to"}, exitFailed, "nothing is done: --yes erases session s, which cannot be undone\n"},
		{[]string{"s", "--reason=", "--yes"}, exitFailed, "--reason: say why"},
		{[]string{"nobody", "--reason", "asked to", "--yes"}, exitFailed, "there is no session nobody here"},
		{[]string{"s", "--reason", "asked to", "--yes", "--as", "not a name"}, exitFailed, `--as "not a name": `},
		{[]string{"s", "--reason", "asked to", "--yes", "--keys", t.TempDir()}, exitFailed, "lash-node keys makes keys"},
		{[]string{"s", "--reason", "asked to", "--yes", "--as", "ann"}, exitOK, "erased: session s at sequence 1 "},
		{[]string{"s", "--reason", "again", "--yes"}, exitOK, ": asked to)"},
	} {
		out, errs, code := lashNode(t, append([]string{"erase", "--store", node.store}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: got code %d, %q %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	out, _, code := lashNode(t, "erase", "--store", node.store, "s", "--reason", "again", "--yes", "--json")
	var got erased
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || got.Session != "s" || got.Reason != "asked to" || got.Seq != 1 || got.At == 0 || got.By != "ann" {
		t.Errorf("as JSON: got code %d, %s, %v, want the first tombstone", code, out, err)
	}
	public, err := os.ReadFile(filepath.Join(keyring.Dir(node.store), keyring.TenantPub))
	runtest.NoError(t, err)
	tenants, err := keyring.Verifiers(string(public))
	runtest.NoError(t, err)
	stone, _, err := proof.ReadTombstone([]byte(got.Note), tenants)
	if err != nil || stone.Session != "s" || stone.By != "ann" || stone.Reason != "asked to" || stone.At != got.At || stone.Size != 1 || stone.Root == nil || stone.Retention {
		t.Errorf("signed tombstone: got %+v, %v, want what the command prints", stone, err)
	}
	_, errs, code := lashNode(t, "approvals", "--store", node.store, "s")
	if code != exitFailed || !strings.HasPrefix(errs, "lash-node: session s was erased at 20") || !strings.HasSuffix(errs, ": asked to\n") {
		t.Errorf("approvals of an erased session: got code %d, %s", code, errs)
	}
	_, errs, code = lashNode(t, "chat", "--store", node.store, "--session", "s")
	if code != exitFailed || !strings.HasPrefix(errs, "lash-node: session s was erased at 20") || !strings.HasSuffix(errs, ": asked to: lash-node chat without --session begins another\n") {
		t.Errorf("chat with an erased session: got code %d, %s", code, errs)
	}
	node.stop(t, syscall.SIGTERM)
}
