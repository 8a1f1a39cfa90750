package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestLongReadsWhatIsLeft reads a session whose commits after its archive are lost, with each command. They have what is left, and say what is lost.
func TestLongReadsWhatIsLeft(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	h, err := session.New(session.Config{Bus: b, Actor: "tester", Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(t.Context(), api.CreateRequest{ID: "cut"})
	runtest.NoError(t, err)
	configure := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			change := func(c events.Config) events.Config { c.Instructions = text; return c }
			runtest.NoError(t, h.Configure(t.Context(), "cut", api.ConfigureRequest{Change: change}))
		}
	}
	configure("kept 2", "kept 3")
	if done, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), "cut"); !done || err != nil {
		t.Fatalf("archive: got %t, %v", done, err)
	}
	configure("lost 4", "lost 5")
	runtest.NoError(t, follow.NewProjector(b, nil).Project(t.Context(), "cut"))
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	for name := range js.StreamNames(t.Context(), jetstream.WithStreamListSubject("lash.s.cut.>")).Name() {
		runtest.NoError(t, js.DeleteStream(t.Context(), name))
	}
	if err := b.Recreate(t.Context(), "cut"); err != nil { // as a node that comes to the session
		t.Fatal(err)
	}
	dir, told := t.TempDir(), "commits 4 to 5 are lost"
	for _, c := range []struct {
		args string
		code int
		want []string // in the output or the messages
	}{
		{"verify cut", exitViolations, []string{told, "lash-node fork cut", "3 events"}},
		{"verify --all", exitViolations, []string{told, "lash-node fork cut", "3 events"}},
		{"check cut", exitViolations, []string{told}},
		{"show cut", program.OK, []string{told, "lash-node fork cut"}},
		{"events cut", program.OK, []string{told, "3.0"}},
		{"stats cut", exitError, []string{told, "commits      3"}},
		{"ls", program.OK, []string{"cut"}},
		{"export cut -o " + filepath.Join(dir, "cut.lash"), program.OK, []string{told, "cut.lash"}},
		{"export --all -o " + filepath.Join(dir, "all"), exitError, []string{told, "cut.lash"}},
	} {
		var out bytes.Buffer
		code := run(t.Context(), append(strings.Fields(c.args), "--nats", server.URL()), &program.Streams{Out: &out, Err: &out, Env: func(string) string { return "" }})
		if code != c.code {
			t.Errorf("%s: got exit code %d, want %d: %s", c.args, code, c.code, &out)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: got %q, want %q", c.args, &out, want)
			}
		}
	}
	for _, file := range []string{"cut.lash", "all/cut.lash"} {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"verify", filepath.Join(dir, file)}, &program.Streams{Out: &out, Err: &out, Env: func(string) string { return "" }}); code != program.OK {
			t.Errorf("%s: got exit code %d: %s", file, code, &out)
		}
	}
}
