package serve

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"
	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

func tenantsIn(t *testing.T, dir string) []note.Verifier {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, keyring.TenantPub))
	runtest.NoError(t, err)
	list, err := keyring.Verifiers(string(text))
	runtest.NoError(t, err)
	return list
}

// TestHeadsOutside: signed heads reach a file and a subject, and a new key of the node is used at once.
func TestHeadsOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tenant, keys, file := filepath.Join(dir, "tenant"), filepath.Join(dir, "n1"), filepath.Join(dir, "heads")
	_, err := keyring.MakeTenant(tenant, "example.com/agents")
	runtest.NoError(t, err)
	_, err = keyring.Certify(keys, tenant, "first", time.Now(), time.Hour)
	runtest.NoError(t, err)
	cfg := Config{Logger: zaptest.NewLogger(t)}
	n, err := started(t, cfg, "--store", filepath.Join(dir, "store"), "--listen", "127.0.0.1:0", "--provider", "scripted",
		"--set", "keys="+keys, "--set", "heads="+file, "--set", "heads-subject=audit.heads")
	runtest.NoError(t, err)
	received := make(chan *nats.Msg, 100)
	sub, err := n.bus.Conn().ChanSubscribe("audit.heads.>", received)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	id, err := n.Host().Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	turn := func() *proof.Certificate {
		t.Helper()
		_, err := n.Host().Run(t.Context(), id, api.Ask("hello"))
		runtest.NoError(t, err)
		msg := <-received
		var line headLine
		runtest.NoError(t, json.Unmarshal(msg.Data, &line))
		h, cert, err := proof.ReadHead([]byte(line.Note), tenantsIn(t, tenant))
		if err != nil || h.Session != id || h.Size != line.Size || msg.Subject != "audit.heads."+string(id) {
			t.Fatalf("head on %s: got %+v, %v", msg.Subject, h, err)
		}
		return cert
	}
	if got := turn().Name; got != "first" {
		t.Errorf("got a head of key %s, want first", got)
	}
	_, err = keyring.Certify(keys, tenant, "second", time.Now(), time.Hour)
	runtest.NoError(t, err)
	turns := 1
	bustest.Eventually(t, "a head of the new key", func() bool { // the node reads its files each second
		turns++
		return turn().Name == "second"
	})
	n.Stop()
	f, err := os.Open(filepath.Clean(file))
	runtest.NoError(t, err)
	defer func() { _ = f.Close() }()
	var last events.Seq
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); count++ {
		var line headLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Size <= last {
			t.Errorf("line %d: got %+v, %v", count+1, line, err)
		}
		last = line.Size
	}
	if count != turns {
		t.Errorf("got %d heads in the file, want %d", count, turns)
	}
}

func TestKeysOfNode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unsigned_and_keys": {[]string{"--set", "unsigned=true", "--set", "keys=x"}, "exclude each other"},
		"unsigned_heads":    {[]string{"--set", "unsigned=true", "--set", "heads=x"}, "need signed heads"},
		"no_keys":           {[]string{"--set", "keys=" + filepath.Join(t.TempDir(), "none")}, "lash-node keys makes keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--store", filepath.Join(t.TempDir(), "store"), "--listen", "127.0.0.1:0", "--provider", "scripted"}, tt.args...)
			if n, err := started(t, Config{Logger: zaptest.NewLogger(t)}, args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
				if n != nil {
					n.Stop()
				}
			}
		})
	}
}
