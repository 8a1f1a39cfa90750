package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
)

// bundleOf is a bundle on a deployment, as the tenant's node.
func (d *deployment) bundleOf(user string, script ...step) *bundle {
	d.t.Helper()
	b := &bundle{t: d.t, ctx: limited(d.t), model: &model{t: d.t, script: script}, tools: plugin.NewTools()}
	b.bus = d.open(bus.Open, d.config(user))
	b.Host = b.newHost(b.bus)
	return b
}

func (d *deployment) open(how func(context.Context, bus.Config) (*bus.Bus, error), cfg bus.Config) *bus.Bus {
	d.t.Helper()
	b, err := how(limited(d.t), cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(b.Close)
	return b
}

// bigBytes do not fit an event.
const bigBytes = 300 << 10

// bulky has a tool, big, whose result is kept as a blob.
func bulky() plugin.Factory {
	return plugin.OfTool(plugin.Tool{Name: "big", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return strings.Repeat("0123456789abcdef", bigBytes/16), nil
	})
}

// everything is a session of nearly all that a node does: tools, a blob, a
// monitor's process, an archive, and the way back from it, which has so many
// commits that they are read in several batches.
func everything(b *bundle, id events.SessionID) {
	b.t.Helper()
	b.open(api.CreateRequest{ID: id})
	b.run(id, "t1", text("hello"))
	b.await(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	b.run(id, "t2", text("enough"))
	b.await(id, "the end of the monitor", func(s *projector.State) bool { return len(s.Tasks) == 1 && s.Tasks[0].State.Terminal() })
	for err := error(new(events.ConflictError)); err != nil; {
		if err = b.bus.Archive(b.ctx, id, b.last(id)); err != nil && !errors.As(err, new(*events.ConflictError)) {
			b.t.Fatal(err)
		}
	}
	must(b.t, "discard", b.bus.Discard(b.ctx, id), nil)
	for i := range 600 {
		b.say(id, fmt.Sprintf("note-%d", i))
	}
}

func everythingScript() []step {
	return []step{
		reply(call("c1", "big", `{}`), call("c2", "monitor_start", `{"id":"tick","command":"echo tick; exec sleep 1000","notify_only":true}`)),
		reply(text("begun")), reply(call("c3", "monitor_stop", `{"id":"tick"}`)), reply(text("ended")),
	}
}

// TestRoleNode runs turns with nothing but a node's permissions.
func TestRoleNode(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", everythingScript()...)
	b.node(bulky(), background.Factory(background.Config{}))
	everything(b, "s1")
	other := d.open(bus.Open, d.config("node@acme"))
	stop, err := other.Answer("w2", func(q []byte) []byte { return append(q, '!') })
	must(t, "answer", err, nil)
	defer stop()
	must(t, "subscribed", other.Conn().Flush(), nil)
	answer, err := b.bus.Ask(b.ctx, "w2", []byte("who"))
	must(t, "ask", err, nil)
	equal(t, "answer", string(answer), "who!")
	for _, err := range b.bus.Hot(b.ctx) {
		must(t, "hot", err, nil)
	}
}

// TestRoleHost drives a session by requests to nodes and watches it by itself,
// with nothing but a host client's permissions.
func TestRoleHost(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", append(everythingScript(), reply(text("for a client")))...)
	b.node(bulky(), background.Factory(background.Config{}))
	everything(b, "s1")
	reader := d.open(bus.OpenReader, d.config("alice@acme"))
	live, err := reader.Live("s1", 1024)
	must(t, "live", err, nil)
	defer live.Close()
	must(t, "subscribed", b.bus.Conn().Flush(), nil)
	c, err := client.New(client.Config{Bus: reader, Logger: zaptest.NewLogger(t)})
	must(t, "client", err, nil)
	got, err := c.Run(b.ctx, "s1", api.TurnRequest{ID: "t3", Input: events.TurnInput{Parts: []events.Part{text("hi")}}})
	must(t, "run", err, nil)
	equal(t, "answer", got.Text, "for a client")
	for ended := false; !ended; {
		select {
		case m := <-live.C:
			ended = bus.ParseLive(m).Ends
		case <-b.ctx.Done():
			t.Fatal("saw no turn end")
		}
	}
	readsAll(b, reader)
	rows := 0
	for _, err := range reader.Directory().Keys(b.ctx) {
		must(t, "keys", err, nil)
		rows++
	}
	if row, err := reader.Directory().Get(b.ctx, "s1"); err != nil {
		t.Errorf("row: %v, %v", row, err)
	}
}

// TestNodesAnswerInboxesOnly has a user of the inner account ask nodes, and name
// subjects for the answer at which a message does something: nothing comes of it.
func TestNodesAnswerInboxesOnly(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.node()
	b.open(api.CreateRequest{ID: "s1"})
	nobodys := bus.Class("nobodys") // no node takes work of it
	waits := bus.WakeKey{Class: nobodys, Session: "s1", Task: "waits"}
	must(t, "wake", b.bus.PublishWake(waits, bus.WakeHint{}), nil)
	b.until("the wake", func() bool { return b.wakes()[waits] })
	last := b.last("s1")
	answerTo := []string{
		"$JS.API.STREAM.PURGE.lash-work", "$JS.API.STREAM.DELETE.lash-s-s1", "$JS.API.STREAM.PURGE.KV_lash-sessions",
		"lash.s.s1.turn", "lash.work.turn.s1.t9", "_INBOX",
	}
	host := d.conn("node@acme")
	for _, subject := range answerTo {
		must(t, "publish", host.PublishRequest("lash.api.submit", subject, nil), nil)
	}
	must(t, "flush", host.Flush(), nil)
	must(t, "permission", host.LastError(), nil)
	b.until("refusals", func() bool {
		refused := int64(0)
		for _, e := range statsOf(t, b.bus, 1)[0].Endpoints {
			var own bus.OperationStats
			must(t, "stats", json.Unmarshal(e.Data, &own), nil)
			refused += own.Refused
		}
		return refused == int64(len(answerTo))
	})
	equal(t, "the wake is there", b.wakes()[waits], true)
	equal(t, "last", b.last("s1"), last)
}

// readsAll compares what a reader has of session s1 with what the node has.
func readsAll(b *bundle, reader *bus.Bus) {
	b.t.Helper()
	mine, theirs := projector.NewVerifier("s1"), projector.NewVerifier("s1")
	for _, side := range []struct {
		v  *projector.Verifier
		on *bus.Bus
	}{{mine, reader}, {theirs, b.bus}} {
		for e, err := range side.on.Log().Read(b.ctx, "s1", 1) {
			if err != nil {
				b.t.Fatal(err)
			}
			if bad := side.v.Apply(e); len(bad) > 0 {
				b.t.Errorf("history: %v", bad)
			}
		}
	}
	equal(b.t, "last", mine.State().Seq, theirs.State().Seq)
	if mine.State().Seq < 10 {
		b.t.Errorf("last: got %d, want a history", mine.State().Seq)
	}
	ids := 0
	for id, err := range reader.Sessions(b.ctx) {
		must(b.t, "sessions", err, nil)
		equal(b.t, "session", id, "s1")
		ids++
	}
	equal(b.t, "sessions", ids, 1)
	ref, err := b.bus.PutBlob(b.ctx, bytes.Repeat([]byte("x"), bigBytes))
	must(b.t, "put blob", err, nil)
	body, err := reader.Blob(b.ctx, ref)
	must(b.t, "blob", err, nil)
	equal(b.t, "blob", len(body), bigBytes)
}

// TestRoleAuditor replays histories with lash-replay and nothing but an auditor's permissions.
func TestRoleAuditor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a command")
	}
	d := install(t).boot()
	b := d.bundleOf("node@acme", everythingScript()...)
	b.node(bulky(), background.Factory(background.Config{}))
	everything(b, "s1")
	readsAll(b, d.open(bus.OpenReader, d.config("auditor@acme")))
	replay := filepath.Join(t.TempDir(), "lash-replay")
	build := exec.CommandContext(b.ctx, "go", "build", "-o", replay, "../cmd/lash-replay")
	build.Env = append(os.Environ(), "HOME="+os.Getenv("BUILD_HOME"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := func(args ...string) string {
		t.Helper()
		base := d.certs("auditor-at-acme")
		args = append(args, "--nats", d.ns.ClientURL(), "--tls-ca", d.clients.pem, "--tls-cert", base+".pem", "--tls-key", base+".key", "--inbox", "_INBOX.auditor")
		out, err := exec.CommandContext(b.ctx, replay, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("lash-replay %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, what := range []string{run("ls"), run("verify", "--all"), run("show", "s1"), run("events", "s1"), run("stats", "s1")} {
		if what == "" {
			t.Error("lash-replay printed nothing")
		}
	}
	if got := run("show", "s1"); !strings.Contains(got, "hello") {
		t.Errorf("show: got %q, want the conversation", got)
	}
	run("export", "s1", "-o", filepath.Join(t.TempDir(), "s1.lash"))
}
