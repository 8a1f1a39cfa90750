package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWhereLeadsBack has a shell read the flags that a command prints for the next
// one: they are those that it was given itself.
func TestWhereLeadsBack(t *testing.T) {
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

// TestNodeFlagsLeadBack has a shell read the flags of the node that a chat started: they are those that it was given itself.
func TestNodeFlagsLeadBack(t *testing.T) {
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
		{"--model", "m", "--plugins", "default,files", "--root", "a dir", "--allow", "read_file:*", "--allow", "shell:go test *, or so", "--ask", "shell", "--deny", "shell:rm $HOME", "--command-timeout", "30s"},
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

// TestStarts has a chat with a certificate of its own, which starts no node: the hint leaves it out.
func TestStarts(t *testing.T) {
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
