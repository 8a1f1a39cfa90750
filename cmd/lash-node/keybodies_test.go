package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	remote "github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/keyring"
)

// TestLongKeysBodies makes, rotates and forgets keys of bodies by the commands.
func TestLongKeysBodies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys", "bodies.key")
	keys := func(want int, args ...string) (list struct {
		Current uint32   `json:"current"`
		Keys    []uint32 `json:"keys"`
	},
	) {
		t.Helper()
		out, errs, code := lashNode(t, append([]string{"keys", "bodies", args[0], "--file", file, "--json"}, args[1:]...)...)
		if code != want {
			t.Fatalf("%q: got code %d, %s, want %d", args, code, errs, want)
		}
		if code == exitOK {
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				t.Fatalf("%q: got %s, %v", args, out, err)
			}
		}
		return list
	}
	keys(exitFailed, "show")
	first := keys(exitOK, "make")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: got %v, %v, want mode 600", info.Mode(), err)
	}
	keys(exitFailed, "make") // it stays
	added := keys(exitOK, "add")
	if added.Current != first.Current || len(added.Keys) != 2 {
		t.Errorf("add: got %+v, want %d and another one", added, first.Current)
	}
	fresh := strconv.FormatUint(uint64(added.Keys[1]), 10)
	if used := keys(exitOK, "use", fresh); used.Current != added.Keys[1] || used.Keys[1] != first.Current {
		t.Errorf("use: got %+v", used)
	}
	keys(exitFailed, "forget", fresh)
	keys(exitFailed, "use", "1")
	if left := keys(exitOK, "forget", strconv.FormatUint(uint64(first.Current), 10)); len(left.Keys) != 1 || left.Current != added.Keys[1] {
		t.Errorf("forget: got %+v", left)
	}
	if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // to be refused
		t.Fatal(err)
	}
	if _, errs, code := lashNode(t, "keys", "bodies", "show", "--file", file); code != exitFailed || !strings.Contains(errs, "chmod 600") {
		t.Errorf("a file that others read: got code %d, %s", code, errs)
	}
}

// TestLongServeBodiesKey serves a store with keys, and starts it again without them and with others.
func TestLongServeBodiesKey(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), t.TempDir()
	for _, name := range []string{"own", "other"} {
		if _, errs, code := lashNode(t, "keys", "bodies", "make", "--file", filepath.Join(dir, name)); code != exitOK {
			t.Fatal(errs)
		}
	}
	node := served(t, "--store", store, "--listen", "127.0.0.1:0", "--bodies-key", filepath.Join(dir, "own"))
	if _, err := remoteOf(t, node, filepath.Join(dir, "own")).Create(limited(t), api.CreateRequest{ID: "s", Labels: map[string]string{"l": "the secret"}}); err != nil {
		t.Fatal(err)
	}
	node.stop(t, syscall.SIGTERM)
	_, errs, code := lashNode(t, "serve", "--store", store, "--listen", "127.0.0.1:0", "--bodies-key", filepath.Join(dir, "other"))
	if code != exitFailed || !strings.Contains(errs, "encrypted with another key") {
		t.Errorf("with another key: got code %d, %s", code, errs)
	}
	node = served(t, "--store", store, "--listen", "127.0.0.1:0")
	h := remoteOf(t, node, "")
	if _, err := h.View(limited(t), "s"); err == nil || !strings.Contains(err.Error(), "which is not here") {
		t.Errorf("view without the key: got %v, want the missing key", err)
	}
	if _, err := h.Create(limited(t), api.CreateRequest{ID: "t"}); err == nil || !strings.Contains(err.Error(), "which is not here") {
		t.Errorf("create without the key: got %v, want the missing key", err)
	}
	node.stop(t, syscall.SIGTERM)
	node = served(t, "--store", store, "--listen", "127.0.0.1:0", "--bodies-key", filepath.Join(dir, "own"))
	if s, err := remoteOf(t, node, filepath.Join(dir, "own")).State(limited(t), "s"); err != nil || s.Labels["l"] != "the secret" {
		t.Errorf("with the key again: got %+v, %v", s, err)
	}
	node.stop(t, syscall.SIGTERM)
}

// remoteOf is a client of a served node, with the keys in a file; none where that is empty.
func remoteOf(t *testing.T, s *serving, file string) *remote.Client {
	t.Helper()
	own, err := busembed.ReadAccess(s.store)
	runtest.NoError(t, err)
	cfg := bus.Config{URL: s.url, Options: []nats.Option{own.Option()}}
	if file != "" {
		keys, err := keyring.LoadBodies(file)
		runtest.NoError(t, err)
		cfg.Keys = keys
	}
	b, err := bus.OpenReader(limited(t), cfg)
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	c, err := remote.New(remote.Config{Bus: b})
	runtest.NoError(t, err)
	return c
}
