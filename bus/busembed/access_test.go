package busembed_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// startKeyed starts a server that requires the store's key, and reads the key.
func startKeyed(t *testing.T, store string) (*busembed.Server, busembed.Access) {
	t.Helper()
	s, err := busembed.Start(busembed.Config{StoreDir: store, Listen: true, Keyed: true})
	runtest.NoError(t, err)
	t.Cleanup(s.Stop)
	a, err := busembed.ReadAccess(store)
	if err != nil || a.URL != s.URL() {
		t.Fatalf("got %+v, %v, want the access of %s", a, err, s.URL())
	}
	return s, a
}

// accepts reports whether a server accepts a connection.
func accepts(t *testing.T, s *busembed.Server, opts ...nats.Option) bool {
	t.Helper()
	nc, err := nats.Connect(s.URL(), opts...)
	if err != nil {
		runtest.WantError(t, "err", err, nats.ErrAuthorization)
		return false
	}
	defer nc.Close()
	return nc.Flush() == nil
}

func TestKeyed(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	if _, err := busembed.ReadAccess(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: got %v, want none", err)
	} else if !strings.Contains(err.Error(), ": lash-node serve --store "+store+" makes it") {
		t.Errorf("no store: got %v, want the command that makes it", err)
	}
	s, own := startKeyed(t, store)
	_, other := startKeyed(t, t.TempDir())
	for _, c := range []struct {
		name string
		opts []nats.Option
		want bool
	}{
		{"no credentials", nil, false},
		{"a password", []nats.Option{nats.UserInfo("lash", "lash")}, false},
		{"another store's key", []nats.Option{other.Option()}, false},
		{"the store's key", []nats.Option{own.Option()}, true},
		{"this process", []nats.Option{s.InProcess()}, true},
	} {
		if got := accepts(t, s, c.opts...); got != c.want {
			t.Errorf("%s: let in %v, want %v", c.name, got, c.want)
		}
	}
	name := filepath.Join(store, "access.json")
	for _, path := range []string{store, name} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got %v, %v, want it to be its owner's only", path, info.Mode(), err)
		}
	}
	s.Stop()
	s, again := startKeyed(t, store)
	if again.Seed != own.Seed {
		t.Error("the next run has another key")
	}
	s.Stop()
	if err := os.Chmod(name, 0o640); err != nil { //nolint:gosec // what is tested
		t.Fatal(err)
	}
	s, fresh := startKeyed(t, store)
	if accepts(t, s, own.Option()) || !accepts(t, s, fresh.Option()) {
		t.Error("a key that others could read is still taken")
	}
	s.Stop()
	runtest.Root(t) // only root can make files of others
	runtest.NoError(t, os.Chown(name, os.Geteuid()+1, -1))
	s, last := startKeyed(t, store)
	if accepts(t, s, fresh.Option()) || !accepts(t, s, last.Option()) {
		t.Error("a key that another user made is still taken")
	}
}

// TestKeyFile gives a server every kind of broken key file, as a crash of the machine leaves them: the server makes
// another key, and accepts that one only.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", `{"seed":""}`, `{"seed":"SUAAA"}`, `{"url":"nats://127.0.0.1:1","seed":7}`} {
		store := t.TempDir()
		for _, name := range []string{"access.json", "access.json.next"} {
			runtest.NoError(t, os.WriteFile(filepath.Join(store, name), []byte(text), 0o600))
		}
		if _, err := busembed.ReadAccess(store); err == nil || !strings.HasSuffix(err.Error(), ": the next start of the node makes another one") {
			t.Errorf("%q: got %v, want what makes another one", text, err)
		}
		s, fresh := startKeyed(t, store)
		if accepts(t, s) || !accepts(t, s, fresh.Option()) {
			t.Errorf("%q: want a server that takes its new key alone", text)
		}
		if _, err := os.Stat(filepath.Join(store, "access.json.next")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v, want one file", text, err)
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"0.0.0.0", "::", "192.168.1.7", "example.com", "127.0.0.1.example.com"} {
		s, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true, Host: host})
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), "host "+host+": ") {
			t.Errorf("%s: got %v, want it refused", host, err)
		}
	}
	if _, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Keyed: true, Name: "a", ClusterName: "c", Routes: []string{"127.0.0.1:1"}}); err == nil {
		t.Error("a cluster with keys started")
	}
}
