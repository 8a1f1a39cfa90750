package main

import (
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongConnectionFlagsRoundTrip parses, with a shell, the flags that a command prints for the next one. They equal the flags of
// the command itself.
func TestLongConnectionFlagsRoundTrip(t *testing.T) {
	t.Parallel()
	parse := func(t *rapid.T, args []string) clientFlags {
		var c cli
		parser, err := line(&c).Parser(&streams{Out: io.Discard, Err: io.Discard}, func(int) {})
		if err == nil {
			_, err = parser.Parse(append([]string{"approvals"}, args...))
		}
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return c.Approvals.clientFlags
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var args []string
		for _, flag := range []string{"store", "creds", "tls-ca", "tls-cert", "tls-key", "prefix", "inbox", "nats"} {
			if !rapid.Bool().Draw(t, flag) {
				continue
			}
			value := rapid.StringMatching(`[a-zA-Z][a-z .'"$*;_-]{0,5}[a-z]`).Draw(t, "value")
			if flag == "nats" {
				value = "tls://" + value
			} else if flag != "prefix" && flag != "inbox" {
				value = filepath.Join(dir, value)
			}
			args = append(args, "--"+flag+"="+value)
		}
		want := parse(t, args)
		out, err := exec.Command("sh", "-c", "printf '%s\\n'"+want.where()).Output()
		if err != nil {
			t.Fatalf("%s: %v", want.where(), err)
		}
		var again []string
		if text := strings.TrimSuffix(string(out), "\n"); text != "" {
			again = strings.Split(text, "\n")
		}
		if got := parse(t, again); got != want {
			t.Fatalf("%q: got %+v, want %+v", want.where(), got, want)
		}
	})
}

// TestNodeFlagsRoundTrip parses, with a shell, the flags of the node that a chat started. They equal the flags of the chat.
func TestNodeFlagsRoundTrip(t *testing.T) {
	t.Parallel()
	parse := func(args []string) chatCmd {
		var c cli
		parser, err := line(&c).Parser(&streams{Out: io.Discard, Err: io.Discard}, func(int) {})
		if err == nil {
			_, err = parser.Parse(append([]string{"chat"}, args...))
		}
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return c.Chat
	}
	for _, args := range [][]string{
		nil,
		{"--model", "it's one"},
		{"--provider", "scripted", "--plugins", "none"},
		{"--model", "m", "--plugins", "default,files", "--root", "a dir", "--allow", "read_file:*", "--allow", "shell:go test *, or so", "--ask", "shell", "--deny", "shell:rm $HOME", "--set", "command-timeout=30s"},
	} {
		want := parse(args)
		out, err := exec.Command("sh", "-c", "for word in "+want.nodeFlags()+"; do printf '%s\\n' \"$word\"; done").Output()
		if err != nil {
			t.Fatalf("%s: %v", want.nodeFlags(), err)
		}
		if got := parse(strings.Split(string(out), "\n")[:strings.Count(string(out), "\n")]); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", want.nodeFlags(), got, want)
		}
	}
}

// TestHintLeavesOutUnusedCertificate runs a chat with a client certificate. A node of the chat's own would not use it, so the hint leaves it
// out.
func TestHintLeavesOutUnusedCertificate(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"lash-node serve --nats tls://x starts one":                                             {"--nats", "tls://x"},
		"lash-node serve starts one, with the certificate and the inbox of a user of role node": {"--nats", "tls://x", "--tls-cert", "c", "--tls-key", "k", "--inbox", "_INBOX.host"},
	} {
		var c cli
		parser, err := line(&c).Parser(&streams{Out: io.Discard, Err: io.Discard}, func(int) {})
		if err == nil {
			_, err = parser.Parse(append([]string{"chat"}, args...))
		}
		if got := c.Chat.starts(); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", args, got, err, want)
		}
	}
}

// serverAt starts a server without keys where another one listened.
func serverAt(t *testing.T, before string) {
	t.Helper()
	u, err := url.Parse(before)
	runtest.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	runtest.NoError(t, err)
	other, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true, Host: u.Hostname(), Port: port})
	runtest.NoError(t, err)
	t.Cleanup(other.Stop)
}

// TestLongKeyIsNotSentToAnotherServer has a server without keys where that of the store listened before: --nats names it, without the store's key, and the
// store does not.
func TestLongKeyIsNotSentToAnotherServer(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0")
	node.stop(t, syscall.SIGTERM)
	serverAt(t, node.url)
	at := []string{"--store", node.store, "--nats", node.url}
	second := served(t, at...)
	defer second.stop(t, syscall.SIGTERM)
	if out, errs, code := pipeInto(t, "hello\n", at...); code != exitOK || !strings.HasPrefix(out, "This node has no model.") {
		t.Errorf("chat: got %d, %q, %q, want the answer of the node at the named server", code, out, errs)
	}
	for want, args := range map[string][]string{"": at, "another server listens where the embedded server of the store did": {"--store", node.store}} {
		var errs strings.Builder
		code := run(limited(t), append([]string{"approvals"}, args...), &streams{Out: io.Discard, Err: &errs, Env: func(string) string { return "" }})
		if !strings.Contains(errs.String(), want) || (code == exitOK) != (want == "") {
			t.Errorf("approvals %q: got %d, %q, want %q", args, code, errs.String(), want)
		}
	}
}
