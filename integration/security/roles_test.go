package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
)

// bundleOf is a system on a deployment, as the tenant's node.
func (d *deployment) bundleOf(user string, script ...harness.Step) *harness.System {
	d.t.Helper()
	b := &harness.System{T: d.t, Ctx: harness.Context(d.t), Model: &harness.Model{T: d.t, Script: script}, Tools: plugin.NewTools()}
	b.Bus = d.open(bus.Open, d.config(user))
	b.Host = b.NewHost(b.Bus)
	return b
}

func (d *deployment) open(how func(context.Context, bus.Config) (*bus.Bus, error), cfg bus.Config) *bus.Bus {
	d.t.Helper()
	b, err := how(harness.Context(d.t), cfg)
	runtest.NoError(d.t, err)
	d.t.Cleanup(b.Close)
	return b
}

// bigBytes is larger than an event.
const bigBytes = 300 << 10

// bulky is a plugin with a tool, big, whose result is a blob.
func bulky() plugin.Factory {
	return plugin.OfTool(plugin.Tool{Name: "big", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return strings.Repeat("0123456789abcdef", bigBytes/16), nil
	})
}

// exerciseSession is a session with nearly all features of a node: tools, a blob, a monitor's process, an archive, and
// its restore, with enough commits for several batches.
func exerciseSession(b *harness.System, id events.SessionID) {
	b.T.Helper()
	b.Open(api.CreateRequest{ID: id})
	b.RunTurn(id, "t1", harness.Text("hello"))
	b.AwaitState(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	b.RunTurn(id, "t2", harness.Text("enough"))
	b.AwaitState(id, "the end of the monitor", func(s *projector.State) bool { return len(s.Tasks) == 1 && s.Tasks[0].State.Terminal() })
	for err := error(new(events.ConflictError)); err != nil; {
		if err = b.Bus.Archive(b.Ctx, id, b.LastSeq(id)); err != nil && !errors.As(err, new(*events.ConflictError)) {
			b.T.Fatal(err)
		}
	}
	runtest.WantError(b.T, "discard", b.Bus.Discard(b.Ctx, id), nil)
	for i := range 600 {
		b.AppendTexts(id, fmt.Sprintf("note-%d", i))
	}
}

func exerciseScript() []harness.Step {
	return []harness.Step{
		harness.Reply(harness.Call("c1", "big", `{}`), harness.Call("c2", "monitor_start", `{"id":"tick","command":"echo tick; exec sleep 1000","notify_only":true}`)),
		harness.Reply(harness.Text("begun")), harness.Reply(harness.Call("c3", "monitor_stop", `{"id":"tick"}`)), harness.Reply(harness.Text("ended")),
	}
}

// TestRoleNode runs turns with a node's permissions only.
func TestRoleNode(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", exerciseScript()...)
	b.StartNode(bulky(), background.Factory(background.Config{}))
	exerciseSession(b, "s1")
	other := d.open(bus.Open, d.config("node@acme"))
	stop, err := other.ServeWorker("w2", func(q []byte) []byte { return append(q, '!') })
	runtest.WantError(t, "answer", err, nil)
	defer stop()
	runtest.WantError(t, "subscribed", other.Conn().Flush(), nil)
	answer, err := b.Bus.RequestWorker(b.Ctx, "w2", []byte("who"))
	runtest.WantError(t, "ask", err, nil)
	runtest.Equal(t, "answer", string(answer), "who!")
	for _, err := range b.Bus.Hot(b.Ctx) {
		runtest.WantError(t, "hot", err, nil)
	}
}

// TestRoleHost uses a session by requests to nodes and watches it by itself, with a host client's permissions
// only.
func TestRoleHost(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", append(exerciseScript(), harness.Reply(harness.Text("for a client")))...)
	b.StartNode(bulky(), background.Factory(background.Config{}))
	exerciseSession(b, "s1")
	reader := d.open(bus.OpenReader, d.config("alice@acme"))
	live, err := reader.Live("s1", 1024)
	runtest.WantError(t, "live", err, nil)
	defer live.Close()
	runtest.WantError(t, "subscribed", b.Bus.Conn().Flush(), nil)
	c, err := client.New(client.Config{Bus: reader, Logger: zaptest.NewLogger(t)})
	runtest.WantError(t, "client", err, nil)
	got, err := c.Run(b.Ctx, "s1", api.TurnRequest{ID: "t3", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}}})
	runtest.WantError(t, "run", err, nil)
	runtest.Equal(t, "answer", got.Text, "for a client")
	for ended := false; !ended; {
		select {
		case m := <-live.C:
			ended = bus.ParseLive(m).MayEndTurn
		case <-b.Ctx.Done():
			t.Fatal("saw no turn end")
		}
	}
	readsAll(b, reader)
	rows := 0
	for _, err := range reader.Directory().Keys(b.Ctx) {
		runtest.WantError(t, "keys", err, nil)
		rows++
	}
	if row, err := reader.Directory().Get(b.Ctx, "s1"); err != nil {
		t.Errorf("row: %v, %v", row, err)
	}
}

// TestNodesAnswerInboxesOnly has a user of the inner account send requests to nodes with a reply subject at which
// a message has an effect: the nodes do not respond there.
func TestNodesAnswerInboxesOnly(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	unclaimed := bus.Class("nobodys") // no node takes work of it
	waits := bus.WakeKey{Class: unclaimed, Session: "s1", Task: "waits"}
	runtest.WantError(t, "wake", b.Bus.PublishWake(waits, bus.WakeHint{}), nil)
	b.AwaitPolling("the wake", func() bool { return b.Wakes()[waits] })
	last := b.LastSeq("s1")
	answerTo := []string{
		"$JS.API.STREAM.PURGE.lash-work", "$JS.API.STREAM.DELETE.lash-s-s1", "$JS.API.STREAM.PURGE.KV_lash-sessions",
		"lash.s.s1.turn", "lash.work.turn.s1.t9", "_INBOX",
	}
	host := d.conn("node@acme")
	for _, subject := range answerTo {
		runtest.WantError(t, "publish", host.PublishRequest("lash.api.submit", subject, nil), nil)
	}
	runtest.WantError(t, "flush", host.Flush(), nil)
	runtest.WantError(t, "permission", host.LastError(), nil)
	b.AwaitPolling("refusals", func() bool {
		refused := int64(0)
		for _, e := range harness.StatsOf(t, b.Bus, 1)[0].Endpoints {
			var own bus.OperationStats
			runtest.WantError(t, "stats", json.Unmarshal(e.Data, &own), nil)
			refused += own.Refused
		}
		return refused == int64(len(answerTo))
	})
	runtest.Equal(t, "the wake is there", b.Wakes()[waits], true)
	runtest.Equal(t, "last", b.LastSeq("s1"), last)
}

// readsAll compares a reader's view of session s1 with the node's.
func readsAll(b *harness.System, reader *bus.Bus) {
	b.T.Helper()
	mine, theirs := projector.NewVerifier("s1"), projector.NewVerifier("s1")
	for _, side := range []struct {
		v  *projector.Verifier
		on *bus.Bus
	}{{mine, reader}, {theirs, b.Bus}} {
		for e, err := range side.on.Log().Read(b.Ctx, "s1", 1) {
			runtest.NoError(b.T, err)
			if bad := side.v.Apply(e); len(bad) > 0 {
				b.T.Errorf("history: %v", bad)
			}
		}
	}
	runtest.Equal(b.T, "last", mine.State().Seq, theirs.State().Seq)
	if mine.State().Seq < 10 {
		b.T.Errorf("last: got %d, want a history", mine.State().Seq)
	}
	ids := 0
	for id, err := range reader.Sessions(b.Ctx) {
		runtest.WantError(b.T, "sessions", err, nil)
		runtest.Equal(b.T, "session", id, "s1")
		ids++
	}
	runtest.Equal(b.T, "sessions", ids, 1)
	ref, err := b.Bus.PutBlob(b.Ctx, bytes.Repeat([]byte("x"), bigBytes))
	runtest.WantError(b.T, "put blob", err, nil)
	body, err := reader.Blob(b.Ctx, ref)
	runtest.WantError(b.T, "blob", err, nil)
	runtest.Equal(b.T, "blob", len(body), bigBytes)
}

// TestRoleAuditor replays histories with lash-replay and an auditor's permissions only, which another process answers with those of
// role reader only.
func TestRoleAuditor(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", exerciseScript()...)
	b.StartNode(bulky(), background.Factory(background.Config{}))
	exerciseSession(b, "s1")
	replay := harness.BuildCommand(t, "lash-replay")
	d.serveAuditsByProcess(replay, "acme")
	readsAll(b, d.open(bus.OpenReader, d.config("auditor@acme")))
	run := func(args ...string) string {
		t.Helper()
		base := d.certs("auditor-at-acme")
		args = append(args, "--nats", d.ns.ClientURL(), "--tls-ca", d.clients.pem, "--tls-cert", base+".pem", "--tls-key", base+".key", "--inbox", "_INBOX.auditor")
		out, err := exec.CommandContext(b.Ctx, replay, args...).CombinedOutput()
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
	runtest.Contains(t, "show", run("show", "s1"), "hello")
	run("export", "s1", "-o", filepath.Join(t.TempDir(), "s1.lash"))
}
