package security

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// requestsOfAPI are a request for each row of the server's API that a user's list allows.
func (d *deployment) requestsOfAPI(name string) (list []string) {
	d.t.Helper()
	for _, row := range d.permissions(name)["publish"] {
		if strings.HasPrefix(row, "$JS.API.") {
			list = append(list, strings.NewReplacer("*", "lash-s-s1", ">", "lash-s-s1").Replace(row))
		}
	}
	return append(list, "$JS.API.DIRECT.GET.KV_lash-sessions.$KV.lash-sessions.s1")
}

// TestSmokeClientsReachNodesOnly has users of the outer accounts send every request to the server's API that their lists allow. Without a process
// that answers them none has a responder, with one it answers, and that of auditors is no node.
func TestSmokeClientsReachNodesOnly(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme") // makes what is read, and serves nothing
	b.Open(api.CreateRequest{ID: "s1"})
	alice, auditor := d.conn("alice@acme"), d.conn("auditor@acme")
	answered := func(nc *nats.Conn, name string, want bool) {
		t.Helper()
		for _, subject := range d.requestsOfAPI(name) {
			_, err := nc.RequestWithContext(b.Ctx, subject, []byte(`{"seq":1}`))
			if got := err == nil; got != want || err != nil && !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("%s, %s: got %v, want an answer: %v", name, subject, err, want)
			}
		}
	}
	answered(alice, "alice", false)
	answered(auditor, "auditor", false)
	b.StartNode()
	answered(alice, "alice", true)
	answered(auditor, "auditor", false)
	d.serveAudits(d.config("reader@acme"))
	answered(auditor, "auditor", true)
}

// TestReadsOfOtherCost has a client send requests whose cost it chooses. A node refuses each with the field, and its log names the user. What a
// reader sends is answered.
func TestReadsOfOtherCost(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	seen, logs := observer.New(zap.WarnLevel)
	cfg := d.config("node@acme")
	cfg.Logger = zap.New(seen)
	b.StartNodeOn(d.open(bus.Open, cfg))
	b.Open(api.CreateRequest{ID: "s1"})
	alice := d.conn("alice@acme")
	for _, r := range [][3]string{
		{"STREAM.NAMES", `{"offset":0,"subject":"lash.s.>"}`, ""},
		{"STREAM.NAMES", `{}`, "subject"},
		{"STREAM.NAMES", `{"subject":">"}`, "subject"},
		{"STREAM.INFO.lash-s-s1", ``, ""},
		{"STREAM.INFO.lash-s-s1", `{"deleted_details":true}`, "body"},
		{"STREAM.INFO.lash-s-s1", `{"subjects_filter":">"}`, "subjects_filter"},
		{"STREAM.INFO.KV_lash-sessions", `{"subjects_filter":"$KV.lash-sessions.*"}`, ""},
		{"STREAM.INFO.KV_lash-sessions", `{"subjects_filter":"$KV.*.s1"}`, "subjects_filter"},
		{"STREAM.INFO.lash-timers", ``, "stream"},
		{"STREAM.INFO.KV_lash-plugins", ``, "stream"},
		{"STREAM.MSG.GET.lash-archive", `{"last_by_subj":"lash.archive.s1"}`, ""},
		{"STREAM.MSG.GET.lash-archive", `{"seq":1,"next_by_subj":">"}`, "last_by_subj"},
		{"STREAM.MSG.GET.lash-archive", `{"last_by_subj":">"}`, "last_by_subj"},
		{"DIRECT.GET.lash-s-s1", `{"seq":1}`, ""},
		{"DIRECT.GET.lash-s-s1", `{"seq":1,"batch":2,"max_bytes":1000,"no_hdr":true}`, ""},
		{"DIRECT.GET.lash-s-s1", `{"seq":1,"batch":1000000,"max_bytes":1000}`, "batch"},
		{"DIRECT.GET.lash-s-s1", `{"seq":1,"batch":2}`, "max_bytes"},
		{"DIRECT.GET.lash-s-s1", `{"seq":1,"batch":2,"max_bytes":67108864}`, "max_bytes"},
		{"DIRECT.GET.lash-s-s1", `{"seq":1,"next_by_subj":"lash.*.s1.>"}`, "next_by_subj"},
		{"DIRECT.GET.lash-s-s1", `{"multi_last":[">"]}`, "multi_last"},
		{"DIRECT.GET.lash-s-s1", `{"multi_last":["a","b"]}`, "multi_last"},
		{"DIRECT.GET.lash-s-s1", `{"start_time":"2026-01-01T00:00:00Z"}`, "body"},
		{"DIRECT.GET.lash-s-s1", `{}`, "seq"},
		{"DIRECT.GET.KV_lash-sessions.$KV.lash-sessions.>", ``, "subject"},
		{"DIRECT.GET.KV_lash-sessions.$KV.lash-sessions.s1", `{"no_hdr":true}`, "subject"},
	} {
		m, err := alice.RequestWithContext(b.Ctx, "$JS.API."+r[0], []byte(r[1]))
		runtest.WantError(t, r[0]+" "+r[1], err, nil)
		refusal := ""
		if m.Header.Get("Status") == "400" {
			refusal = m.Header.Get("Description")
		}
		if (refusal == "") != (r[2] == "") || !strings.Contains(refusal, r[2]) {
			t.Errorf("%s %s: got the refusal %q, want %q", r[0], r[1], refusal, r[2])
		}
	}
	lines := logs.FilterMessage("a read is refused").All()
	if len(lines) != 1 || lines[0].ContextMap()["user"] != "alice@acme" { // one a minute
		t.Errorf("log: got %v, want one line about alice@acme", lines)
	}
}

// TestFloodOfReads has a client send more reads at once than a node makes for one user. Those above are refused, and the node's log names the user. Reads of
// another user are answered meanwhile, and turns run.
func TestFloodOfReads(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", harness.Reply(harness.Text("one")))
	seen, logs := observer.New(zap.WarnLevel)
	cfg := d.config("node@acme")
	cfg.Logger = zap.New(seen)
	n, _ := b.StartNodeOn(d.open(bus.Open, cfg))
	b.Host = n.Host()
	b.Open(api.CreateRequest{ID: "s1"})
	alice := d.conn("alice@acme")
	inbox := alice.NewRespInbox()
	busy := make(chan *nats.Msg, 1<<16)
	_, err := alice.ChanSubscribe(inbox, busy)
	runtest.WantError(t, "subscribe", err, nil)
	refused := false
	for !refused {
		for range 1000 {
			runtest.WantError(t, "publish", alice.PublishRequest("$JS.API.STREAM.NAMES", inbox, []byte(`{"offset":0,"subject":"lash.s.>"}`)), nil)
		}
		for range 1000 {
			refused = harness.Receive(b, "an answer", busy).Header.Get("Status") == "503" || refused
		}
	}
	for range 1000 {
		runtest.WantError(t, "publish", alice.PublishRequest("$JS.API.STREAM.NAMES", inbox, []byte(`{"offset":0,"subject":"lash.s.>"}`)), nil)
	}
	other := d.open(bus.OpenReader, d.config("host@acme"))
	var ids []events.SessionID
	for id, err := range other.Sessions(b.Ctx) {
		runtest.WantError(t, "sessions of another user", err, nil)
		ids = append(ids, id)
	}
	runtest.Equal(t, "sessions of another user", fmt.Sprint(ids), "[s1]")
	runtest.Equal(t, "turn", b.RunTurn("s1", "t1", harness.Text("hello")).Text, "one")
	if !slices.ContainsFunc(logs.FilterMessage("a read is refused").All(), func(l observer.LoggedEntry) bool { return l.ContextMap()["user"] == "alice@acme" }) {
		t.Error("log: got no line about alice@acme")
	}
}

// serveAuditsByProcess starts lash-replay ui --auditors, with the permissions of role reader only.
func (d *deployment) serveAuditsByProcess(replay, tenant string) {
	d.t.Helper()
	d.access("reader@" + tenant)
	base := d.certs("reader-at-" + tenant)
	cmd := exec.CommandContext(d.t.Context(), replay, "ui", "--auditors", "--nats", d.ns.ClientURL(), "--tls-ca", d.clients.pem, "--tls-cert", base+".pem", "--tls-key", base+".key", "--inbox", "_INBOX.reader") //nolint:gosec // arguments of tests
	out, err := cmd.StdoutPipe()
	runtest.WantError(d.t, "pipe", err, nil)
	runtest.WantError(d.t, "start", cmd.Start(), nil)
	d.t.Cleanup(func() { _ = cmd.Wait() }) // the test's context has ended
	line, err := bufio.NewReader(out).ReadString('\n')
	runtest.WantError(d.t, "first line", err, nil)
	runtest.Equal(d.t, "first line", line, "serving the reads of auditors; stop with ctrl-c\n")
}

// serveAudits answers the reads of auditors, as lash-replay ui --auditors does.
func (d *deployment) serveAudits(reader bus.Config) {
	d.t.Helper()
	stop, err := d.open(bus.OpenReader, reader).ServeReads(bus.Auditors, 4)
	runtest.WantError(d.t, "serve", err, nil)
	d.t.Cleanup(stop)
}
