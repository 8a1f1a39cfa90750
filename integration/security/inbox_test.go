package security

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"

	"github.com/lash-go/lash/integration/internal/harness"
)

// TestMissingInboxIsRefused opens buses as users that may subscribe to one inbox only, with no inbox or another user's.
// They are refused at once, also where they would wait for servers.
func TestMissingInboxIsRefused(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	for _, user := range []string{"node@acme", "host@acme", "auditor@acme", "alice@acme", "node@globex"} {
		for _, inbox := range []string{"", "_INBOX.mallory"} {
			for name, open := range map[string]func(context.Context, bus.Config) (*bus.Bus, error){"open": bus.Open, "reader": bus.OpenReader} {
				b, err := open(t.Context(), bus.Config{URL: d.ns.ClientURL(), Options: append(d.access(user), silent), Inbox: inbox, Wait: true})
				if err == nil {
					b.Close()
				}
				if !errors.Is(err, bus.ErrInbox) || !strings.Contains(err.Error(), "_INBOX.") {
					t.Errorf("%s, %s, inbox %q: got %v, want %v and the inbox", name, user, inbox, err, bus.ErrInbox)
				}
			}
		}
	}
	for _, user := range []string{"backup@acme", "auditor@acme", "host@acme"} { // users that make no streams
		cfg := d.config(user)
		cfg.Wait, cfg.Options = true, append(d.access(user), silent)
		b, err := bus.Open(t.Context(), cfg)
		if err == nil {
			b.Close()
		}
		if !errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, bus.ErrInbox) {
			t.Errorf("%s as a node: got %v, want %v", user, err, nats.ErrPermissionViolation)
		}
	}
}

// TestCredentialErrorNamesTheFlag runs a command with each of its credentials missing or wrong: its error names that
// credential.
func TestCredentialErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	d.open(bus.Open, d.config("node@acme"))
	program := harness.BuildCommand(t, "lash-node")
	d.access("node@acme")
	d.routes.issue(d.certs("stranger"), "node@acme")
	ca, base, outsider := d.clients.pem, d.certs("node-at-acme"), d.certs("stranger")
	complete := []string{"--tls-ca", ca, "--tls-cert", base + ".pem", "--tls-key", base + ".key", "--inbox", "_INBOX.node"}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"whole":      {complete, "no call waits for an approval"},
		"no_inbox":   {complete[:6], "user node@acme may not hear _INBOX.>: give --inbox _INBOX.node"},
		"no_ca":      {complete[2:], "--tls-ca FILE names theirs"},
		"no_cert":    {complete[:2], "--tls-cert and --tls-key are a user's"},
		"other_cert": {[]string{"--tls-ca", ca, "--tls-cert", outsider + ".pem", "--tls-key", outsider + ".key"}, "--tls-cert and --tls-key are a user's"},
		"no_prefix":  {append([]string{"--prefix", "other"}, complete...), ""},
	} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"approvals", "--store", t.TempDir(), "--nats", d.ns.ClientURL()}, tc.args...)...)
		if name == "no_inbox" {
			cmd.Args = append(cmd.Args, "--wait", "1h")
		}
		out, err := cmd.CombinedOutput()
		if (err == nil) != (name == "whole") || !strings.Contains(string(out), tc.want) || strings.Contains(string(out), "is the node running?") {
			t.Errorf("%s: got %v and %s, want %q", name, err, out, tc.want)
		}
	}
}
