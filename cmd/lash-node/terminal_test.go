package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// hostile is text with control sequences and direction marks.
const hostile = "\x1b[2J\x1b]0;t\a\r\u009b2J\u202egpj\u2066\u200f\u061c\u200b\U000e0041\xff"

// connecting are the command lines of every command that takes --nats, for the session s and its call s/0: one without
// switches, and one with each switch.
func connecting(t *testing.T) (list [][]string) {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Vars{"plugins": ""})
	runtest.NoError(t, err)
	archive, err := os.ReadFile("../lash-replay/testdata/archives/answered.lash")
	runtest.NoError(t, err)
	file := writeFile(t, t.TempDir(), "\x1b[2J\u202e.lash", archive)
	for _, leaf := range parser.Model.Leaves(false) {
		if leaf.Hidden || !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "nats" }) {
			continue
		}
		base := strings.Fields(leaf.Path())
		base = slices.DeleteFunc(base, func(text string) bool { return strings.HasPrefix(text, "<") || strings.HasPrefix(text, "[") })
		for _, p := range leaf.Positional {
			base = append(base, map[string]string{"session": "s", "call": "t1/0/0", "file": file}[p.Name])
		}
		for _, f := range leaf.Flags {
			if f.Name == "reason" || f.Name == "deny" {
				base = append(base, "--"+f.Name, "why "+hostile)
			}
			if f.Name == "kind" {
				base = append(base, "--kind", "tool.*")
			}
			if f.Name == "yes" {
				base = append(base, "--yes")
			}
			if f.Name == "session" {
				base = append(base, "--session", "s")
			}
		}
		list = append(list, base, append(slices.Clone(base), "--help"))
		if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "json" }) {
			list = append(list, append(slices.Clone(base), "--json"))
		}
	}
	return list
}

// appendPendingApproval appends a history in which a call waits for an approval. All its texts are hostile.
func appendPendingApproval(ctx context.Context, b *bus.Bus) error {
	args := []byte(`{"x":"` + "\x7f\u202e" + `"}`)
	call := []events.Part{{Kind: events.PartToolCall, Call: "c1", Tool: "add", Args: args}}
	list := []events.Event{
		events.Of("", &events.SessionOpened{}),
		events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: hostile}}}}),
		events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}),
		events.Of("t1", &events.ModelReplied{Parts: call, Stop: events.StopToolUse}),
		events.Of("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "add", Args: args, Plugin: "p" + hostile, Question: "really?" + hostile + "\nfake: line"}),
	}
	for i := range list {
		c := &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: "s", At: 1000, Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list[i : i+1],
		}
		if _, err := b.Log().Append(ctx, c, events.Seq(i)); err != nil {
			return err
		}
	}
	return b.PutDeadLetter(ctx, &bus.DeadLetter{Session: "s", Error: "no: " + hostile + "\nfake: line", Attempts: 8, At: 86_400_000, Worker: "w" + hostile})
}

// TestLongNothingActsOnTheTerminal runs every command that connects to servers on a hostile session.
func TestLongNothingActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	var tried atomic.Int64
	t.Cleanup(func() {
		if n := tried.Load(); n < 6 {
			t.Errorf("%d commands printed what is hostile, so little was tried", n)
		}
	})
	for _, args := range connecting(t) {
		if args[0] == "serve" || strings.HasPrefix(args[0], "plugin") {
			continue // they print no history; TestPluginsAreEscaped has what plugins send
		}
		if args[0] == "fork" && args[len(args)-1] != "--help" {
			continue // a node answers it, with an id
		}
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
			runtest.NoError(t, err)
			defer server.Stop()
			b, err := bus.Open(limited(t), bus.Config{URL: server.URL()})
			runtest.NoError(t, err)
			defer b.Close()
			runtest.NoError(t, appendPendingApproval(limited(t), b))
			var out, errs bytes.Buffer
			code := run(limited(t), append(slices.Clone(args), "--nats", server.URL()), &streams{Out: &out, Err: &errs, Env: func(string) string { return "me" + hostile }})
			output := out.String() + errs.String()
			refused := args[0] == "redact" // of a session with a running turn
			if code != exitOK && !refused {
				t.Errorf("%q: exit code %d: %s", args, code, output)
			}
			if strings.Contains(output, `\u202e`) {
				tried.Add(1)
			}
			for _, r := range output {
				if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) || strings.Contains(output, "\xff") || strings.Contains(output, "\nfake:") {
					t.Fatalf("%q: got U+%04X in %q", args, r, output)
				}
			}
		})
	}
}

// TestLongPasswordIsNotRepeated runs every command with a URL that the server refuses.
func TestLongPasswordIsNotRepeated(t *testing.T) {
	t.Parallel()
	_, address := locked(t, t.TempDir())
	for _, args := range connecting(t) {
		for _, user := range []string{"me:" + secretWrong, secretWrong, "me:a," + secretWrong, "me:a/" + secretWrong} {
			var out, errs bytes.Buffer
			code := run(limited(t), append(slices.Clone(args), "--nats", "nats://"+user+"@"+address), &streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
			if code == exitOK && !slices.Contains(args, "--help") {
				t.Errorf("%q as %s: got exit code 0", args, user)
			}
			wantNoSecret(t, strings.Join(args, " "), append(out.Bytes(), errs.Bytes()...))
		}
	}
}

// TestLongPasswordOfTheServersInUse runs commands that connect. No output contains the password.
func TestLongPasswordOfTheServersInUse(t *testing.T) {
	t.Parallel()
	_, address := locked(t, t.TempDir())
	url := "nats://me:" + secretPassword + "@" + address
	b, err := bus.Open(limited(t), bus.Config{URL: url})
	runtest.NoError(t, err)
	defer b.Close()
	runtest.NoError(t, appendPendingApproval(limited(t), b))
	for _, args := range connecting(t) {
		for _, id := range []string{"s", "nosuch"} {
			args := slices.Clone(args)
			if i := slices.Index(args, "s"); i >= 0 {
				args[i] = id
			}
			if args[0] == "serve" {
				continue // it ends on a signal only: see TestLongSecretsStayInside
			}
			ctx := limited(t)
			if args[0] == "fork" || args[0] == "plugins" { // they wait for a node
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
			}
			var out, errs bytes.Buffer
			run(ctx, append(args, "--nats", url), &streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
			wantNoSecret(t, strings.Join(args, " "), append(out.Bytes(), errs.Bytes()...))
		}
	}
}

// TestLongPasswordsInOtherURLs covers the other settings that take a URL: those that refuse a password, and those that
// take none.
func TestLongPasswordsInOtherURLs(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"me:" + secretWrong, secretWrong, "me:%zz" + secretWrong} {
		at := "http://" + user + "@127.0.0.1:none"
		for _, tc := range []struct{ variable, key string }{
			{"OPENAI_BASE_URL", "OPENAI_API_KEY"}, {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}, {"none", "none"},
		} {
			for _, args := range [][]string{{"--set", "trace=/no/such/directory"}, {"--set", "otlp=" + at}, {"--ops", at}, {"--http", at}, {"--listen", at}, {"--config", at}, {at}} {
				var out, errs bytes.Buffer
				args := append([]string{"serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0"}, args...)
				code := run(limited(t), args, &streams{Out: &out, Err: &errs, Env: func(name string) string { return map[string]string{tc.variable: at, tc.key: "k"}[name] }})
				if code == exitOK {
					t.Errorf("%q with %s: got exit code 0", args, tc.variable)
				}
				wantNoSecret(t, strings.Join(args, " "), append(out.Bytes(), errs.Bytes()...))
			}
		}
	}
}
