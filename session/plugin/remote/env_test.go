package remote_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/remote"
)

// TestFromEnv connects as the variables say, and names the variable that is wrong.
func TestFromEnv(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t, busembed.Config{Listen: true}).URL()
	missing := filepath.Join(t.TempDir(), "missing")
	for want, env := range map[string]map[string]string{
		"":                         {"": "weather", "_NATS": url, "_PREFIX": "fleet", "_INSTANCE": "pod-1"},
		"LASH_PLUGIN: ":            {"": "no token", "_NATS": url},
		"LASH_PLUGIN_NATS: is":     {"": "weather"},
		"LASH_PLUGIN_NKEY: ":       {"": "weather", "_NATS": url, "_NKEY": missing},
		missing + ": no such file": {"": "weather", "_NATS": url, "_TLS_CA": missing},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			name, cfg, err := remote.FromEnv(func(variable string) string { return env[strings.TrimPrefix(variable, "LASH_PLUGIN")] })
			if want != "" {
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
