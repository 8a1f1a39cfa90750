package remote_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/remote"
)

// TestFromEnv connects with a key as the variables say, and names the variable that is wrong.
func TestFromEnv(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	bustest.Server(t, busembed.Config{StoreDir: store, Listen: true, Keyed: true, Plugins: []string{"weather"}})
	data, err := os.ReadFile(busembed.PluginFile(store, "weather"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ URL, Seed, Inbox string }
	if err := json.Unmarshal(data, &c); err != nil || c.Seed == "" {
		t.Fatalf("got %+v, %v, want a connection with a seed", c, err)
	}
	seed, missing := filepath.Join(store, "seed"), filepath.Join(store, "missing")
	if err := os.WriteFile(seed, []byte(c.Seed), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{
		"":                         {"": "weather", "_NATS": c.URL, "_NKEY": seed, "_INBOX": c.Inbox, "_PREFIX": "fleet", "_INSTANCE": "pod-1"},
		"LASH_PLUGIN: ":            {"": "no token", "_NATS": c.URL},
		"LASH_PLUGIN_NATS: is":     {"": "weather"},
		"LASH_PLUGIN_CONNECTION: ": {"": "weather", "_CONNECTION": missing},
		"file":                     {"": "weather", "_CONNECTION": busembed.PluginFile(store, "weather"), "_PREFIX": "fleet", "_INSTANCE": "pod-1"},
		"LASH_PLUGIN_NKEY: ":       {"": "weather", "_NATS": c.URL, "_NKEY": missing},
		missing + ": no such file": {"": "weather", "_NATS": c.URL, "_TLS_CA": missing},
		"Authorization Violation":  {"": "weather", "_NATS": c.URL},
	} {
		t.Run(want, func(t *testing.T) {
			name, cfg, err := remote.FromEnv(func(variable string) string { return env[strings.TrimPrefix(variable, "LASH_PLUGIN")] })
			if want != "" && want != "file" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer cfg.Conn.Close()
			if name != "weather" || cfg.Prefix != "fleet" || cfg.Instance != "pod-1" || !cfg.Conn.IsConnected() {
				t.Errorf("got %q and %+v, want what the variables say", name, cfg)
			}
		})
	}
}
