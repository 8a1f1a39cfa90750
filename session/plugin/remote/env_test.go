//go:build unix

package remote_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
)

// TestFromEnv connects with a key as the variables say, or a file.
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
	seed := filepath.Join(store, "seed")
	if err := os.WriteFile(seed, []byte(c.Seed), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{
		"":                        {"": "weather", "_NATS": c.URL, "_NKEY": seed, "_INBOX": c.Inbox, "_PREFIX": "fleet", "_INSTANCE": "pod-1"},
		"LASH_PLUGIN_NATS: is":    {"": "weather"},
		"file":                    {"": "weather", "_CONNECTION": busembed.PluginFile(store, "weather"), "_PREFIX": "fleet", "_INSTANCE": "pod-1"},
		"Authorization Violation": {"": "weather", "_NATS": c.URL},
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

// wrongValues are values that each variable refuses, with a part of the reason: PROTOCOL.md has the rules. PIPE is a named pipe, DIR a folder, TEXT
// a file with a text.
func wrongValues() map[string]map[string]string {
	const token = "must be 1 to 64 characters of A-Z a-z 0-9 _ -"
	const missing, noFile = "no such file", "is not a regular file"
	return map[string]map[string]string{
		"LASH_PLUGIN":            {"": "is required", "no token": token, "a.b": token, strings.Repeat("n", 65): token},
		"LASH_PLUGIN_PREFIX":     {"a b": token, "a.b": token, ">": token},
		"LASH_PLUGIN_INSTANCE":   {"a b": token, "a.b": token, strings.Repeat("n", 52): "has 52 characters, limit is 51"},
		"LASH_PLUGIN_NATS":       {"": "is required", "http://x": "nats://HOST:PORT", "nats://": "nats://HOST:PORT", "nats://x:port": "nats://HOST:PORT", "nats://x,,": "nats://HOST:PORT"},
		"LASH_PLUGIN_INBOX":      {"a b": "_INBOX.USER", "_INBOX.": "_INBOX.USER", "_INBOX.>": "_INBOX.USER", "*": "_INBOX.USER"},
		"LASH_PLUGIN_CONNECTION": {"NONE": missing, "PIPE": noFile, "DIR": noFile, "/dev/zero": noFile, "TEXT": "invalid character", "NO_URL": "url: is required", "CA_PIPE": "tls_ca: "},
		"LASH_PLUGIN_NKEY":       {"NONE": missing, "PIPE": noFile, "DIR": noFile, "/dev/zero": noFile, "TEXT": "has no seed of an nkey"},
		"LASH_PLUGIN_TLS_CA":     {"NONE": missing, "PIPE": noFile, "DIR": noFile, "/dev/zero": noFile, "TEXT": "has no certificate in PEM"},
		"LASH_PLUGIN_TLS_CERT":   {"NONE": missing, "PIPE": noFile, "DIR": noFile, "/dev/zero": noFile, "TEXT": "PEM"},
		"LASH_PLUGIN_TLS_KEY":    {"NONE": missing, "PIPE": noFile, "DIR": noFile, "/dev/zero": noFile, "TEXT": "is required with the key"},
	}
}

// TestWrongVariables gives each variable values that it refuses. The error names the variable and the rule, in one line, without a connection.
func TestWrongVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"NONE": filepath.Join(dir, "none"), "PIPE": filepath.Join(dir, "pipe"), "DIR": dir}
	for name, text := range map[string]string{"TEXT": "text", "NO_URL": "{}", "CA_PIPE": `{"url":"nats://x","tls_ca":"` + files["PIPE"] + `"}`} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(files["PIPE"], 0o600); err != nil {
		t.Fatal(err)
	}
	values := wrongValues()
	for _, variable := range remote.Variables() {
		if len(values[variable]) == 0 {
			t.Errorf("%s: has no wrong value", variable)
		}
		for value, want := range values[variable] {
			named := variable
			env := map[string]string{"LASH_PLUGIN": "weather", "LASH_PLUGIN_NATS": "nats://127.0.0.1:1", variable: cmp.Or(files[value], value)}
			if variable == "LASH_PLUGIN_TLS_CERT" && value == "TEXT" {
				env["LASH_PLUGIN_TLS_KEY"] = files["TEXT"]
			}
			if variable == "LASH_PLUGIN_TLS_KEY" && value == "TEXT" {
				named = "LASH_PLUGIN_TLS_CERT" // which is missing
			}
			_, _, err := remote.FromEnv(func(name string) string { return env[name] })
			if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != named || !strings.Contains(field.Reason, want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s=%.30s: got %v, want a refusal of %s: %s", variable, value, err, named, want)
			}
		}
	}
}
