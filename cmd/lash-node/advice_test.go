package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestLongAdvice makes commands fail in each way that a user can repair. The last line of output names the flag or the
// command that repairs it.
func TestLongAdvice(t *testing.T) {
	t.Parallel()
	s := served(t, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "x"))
	defer s.stop(t, syscall.SIGTERM)
	single, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	runtest.NoError(t, err)
	defer single.Stop()
	asNode, _, _ := roles(t)
	wrong := strings.Replace(asNode, ":x@", ":wrong@", 1)
	usedAddress := strings.TrimPrefix(s.ops, "http://")
	fresh, other := t.TempDir(), t.TempDir()
	noTurn, text := filepath.Join(other, "empty.lash"), filepath.Join(other, "text")
	writeIdle(t, noTurn)
	for name, data := range map[string]string{text: "text"} {
		runtest.NoError(t, os.WriteFile(name, []byte(data), 0o600))
	}
	opened := clientOf(t, s)
	_, err = opened.Create(limited(t), api.CreateRequest{ID: "open"})
	runtest.NoError(t, err)
	on, free := " --store "+s.store, " --store "+filepath.Join(fresh, "st")
	next := regexp.MustCompile(`(--[a-z]+|setting [a-z]+|lash-(node|replay)( --store \S+)? (--help|[a-z]+)|[A-Z]+_KEY)\b`)
	for command, want := range map[string]string{
		"serve" + on + " --listen 127.0.0.1:0":                                                                 "give --store another directory",
		"serve" + free + " --listen " + usedAddress:                                                            "--listen HOST:PORT another address",
		"serve --store /dev/null/x --listen 127.0.0.1:0":                                                       "--store DIR names another directory",
		"serve" + free + " --listen 127.0.0.1:0 --ops " + usedAddress:                                          "--ops: listen",
		"serve" + free + " --listen 127.0.0.1:0 --http-tokens nofile --http " + usedAddress:                    "--http-tokens: open",
		"serve" + free + " --listen 127.0.0.1:0 --http-tokens " + tokenFile(t, "x") + " --http " + usedAddress: "--http: listen",
		"serve" + free + " --provider openai":                                                                  "OPENAI_API_KEY",
		"serve" + free + " --set trace=no/file":                                                                "setting trace: ",
		"serve" + free + " --set locks=nofile":                                                                 "setting locks: ",
		"serve" + free + " --nosuch":                                                                           "lash-node serve --help",
		"serve --nats nats://127.0.0.1:1 --creds nofile":                                                       "--creds: ",
		"approvals --store " + t.TempDir():                                                                     "--store DIR names another",
		"approvals --nats nats://127.0.0.1:1":                                                                  "lash-node serve starts one",
		"approvals nosuch" + on:                                                                                "ls lists what there is",
		"approve nosuch t/0/0" + on:                                                                            "ls lists what there is",
		"erase nosuch --reason x" + on:                                                                         "--yes erases session nosuch",
		"erase nosuch --reason x --yes" + on:                                                                   "ls lists what there is",
		"dead retry nosuch" + on:                                                                               "lash-node dead ls lists them",
		"chat --store " + fresh:                                                                                "with --model",
		"chat --nats nats://127.0.0.1:1":                                                                       "lash-node serve starts one",
		"chat --nats " + wrong:                                                                                 "NAME:PASSWORD@ in the URL of --nats",
		"approvals --nats " + wrong:                                                                            "NAME:PASSWORD@ in the URL of --nats",
		"demo --chats nofile":                                                                                  "--chats: ",
		"serve --nats " + single.URL() + " --set replicas=3":                                                   "--set replicas=1",
		"import" + on + " nofile":                                                                              "lash-node import --help",
		"import" + on + " " + text:                                                                             "lash-node import --help",
		"import" + on + " " + noTurn + " " + noTurn:                                                            "import one of them",
		"import --nats nats://127.0.0.1:1 " + noTurn:                                                           "lash-node serve starts one",
		"import --store /dev/null/x " + noTurn:                                                                 "--store",
		"import" + on + " --max-mib 0 " + noTurn:                                                               "--max-mib allows more",
		"fork nosuch" + on:                                                                                     "ls lists what there is",
		"fork open --at 99" + on:                                                                               "--at 99",
		"fork open --id a.b" + on:                                                                              "--id",
		"fork open --id open" + on:                                                                             "--id",
		"fork open --as a.b" + on:                                                                              "--as",
		"check --mcp x " + noTurn:                                                                              "leave it out",
		"check --plugins nosuch " + noTurn:                                                                     "default or none",
		"rerun nofile":                                                                                         "lash-replay export",
		"rerun " + text:                                                                                        "lash-replay export",
		"rerun " + noTurn:                                                                                      "lash-replay show",
		"rerun --from nosuch " + noTurn:                                                                        "--from nosuch",
		"rerun --instructions nofile " + noTurn:                                                                "--instructions",
		"redact open --reason x" + on:                                                                          "--kind",
		"redact open --reason x --kind tool.nosuch" + on:                                                       "lash-replay events",
		"redact open --reason x --kind nosuch --yes" + on:                                                      "--close closes it",
		"redact open --reason x --kind nosuch --close --yes" + on:                                              "lash-replay events",
		"redact nosuch --reason x --kind y --yes" + on:                                                         "ls lists what there is",
		"keys show --dir " + filepath.Join(fresh, "k"):                                                         "lash-node keys make",
		"keys certify --dir " + filepath.Join(fresh, "k"):                                                      "lash-node keys make",
		"keys certify --days 0 --dir x":                                                                        "--days 0",
		"keys bodies show --file nofile":                                                                       "--file",
		"keys make --dir /dev/null/x":                                                                          "--dir",
		"mcp":                                                                                                  "lash-node mcp --help",
		"plugin run x":                                                                                         "lash-node plugin run --help",
		"plugin run x -- true":                                                                                 "--connection",
		"plugin run x --connection nofile -- true":                                                             "--connection",
		"plugin run x --nats nats://127.0.0.1:1 -- true":                                                       "lash-node plugin run --help",
		"plugin run x --nats nats://127.0.0.1:1 --nkey nofile -- true":                                         "--nkey",
		"plugin check":                                                                                         "lash-node plugin check",
		"plugin check --timeout 0s -- true":                                                                    "--timeout",
		"plugins --store " + other:                                                                             "--store DIR names another",
		"plugins --nats nats://127.0.0.1:1":                                                                    "lash-node serve starts one",
		"dead show nosuch" + on:                                                                                "lash-node dead ls lists them",
		"dead ls --nats nats://127.0.0.1:1":                                                                    "lash-node serve starts one",
	} {
		var errs strings.Builder
		code := run(limited(t), strings.Fields(command), &streams{Out: io.Discard, Err: &errs, Env: func(string) string { return "" }})
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; code == exitOK || !strings.Contains(last, want) || !next.MatchString(last) {
			t.Errorf("%s: got exit code %d and %q, want %q in the last line", command, code, last, want)
		}
	}
	if left, err := os.ReadDir(fresh); err != nil || len(left) > 0 {
		t.Errorf("stores of nodes that did not start: got %v, %v, want none", left, err)
	}
}

// writeIdle writes the archive of a session without a turn.
func writeIdle(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name) //nolint:gosec // in a directory of the test
	runtest.NoError(t, err)
	w, err := events.NewArchiveWriter(f, "idle", 1)
	if err == nil {
		err = w.Commit(events.Entry{Seq: 1, Commit: &events.Commit{
			ID: "01JD6Z0000000000000000000A", Session: "idle", At: 1_700_000_000_000, Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
			Events: []events.Event{events.Of("", &events.SessionOpened{})},
		}})
	}
	if err = errors.Join(err, w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestServeSaysWhatIsOpen starts a node with every address open. The output names the callers that each address
// serves.
func TestServeSaysWhatIsOpen(t *testing.T) {
	t.Parallel()
	tokens, store := tokenFile(t, "x"), filepath.Join(t.TempDir(), "st")
	s := served(t, "--store", store, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens)
	defer s.stop(t, syscall.SIGTERM)
	for _, want := range []string{
		"lash-node: NATS on " + s.url + ", for programs with the credentials in " + filepath.Join(store, "access.json"),
		"lash-node: HTTP on " + s.http + ", for bearers of tokens in " + tokens + "; described at /v1/openapi.json",
		"lash-node: metrics on " + s.ops + "/metrics, for everyone who reaches that",
	} {
		if !slices.Contains(s.lines, want) {
			t.Errorf("got %q, want %q", s.lines, want)
		}
	}
}
