package security

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// TestRepliesReachNothing has clients send every request that their lists allow, with every kind of reply subject
// at which a message has an effect. The server sends a response to any reply subject; in the outer account none of
// these subjects has an effect. Everything that the servers keep is as before.
func TestRepliesReachNothing(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*deployment) (urls string, all []*server.Server, replicas int){
		"one server": func(d *deployment) (string, []*server.Server, int) {
			d.boot()
			return d.ns.ClientURL(), []*server.Server{d.ns}, 1
		},
		"three servers": func(d *deployment) (string, []*server.Server, int) {
			urls, all := d.cluster()
			return urls, all, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := install(t)
			urls, all, replicas := start(d)
			cfg := d.config("node@acme")
			cfg.URL, cfg.Replicas = urls, replicas
			b := &harness.System{T: t, Ctx: harness.Context(t), Model: &harness.Model{T: t, Script: []harness.Step{harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two"))}}}
			b.Bus = d.open(bus.Open, cfg)
			n, _ := b.StartNodeOn(b.Bus)
			b.Host = n.Host()
			reader := d.config("reader@acme")
			reader.URL = urls
			d.serveAudits(reader)
			b.Open(api.CreateRequest{ID: "s1"})
			b.RunTurn("s1", "t1", harness.Text("hello"))
			forged := forgery(b, "s1")
			rested(b, "s1")
			before := kept(b)
			for i, user := range []string{"alice@acme", "auditor@acme"} { // on two servers, of which one does not lead the stream
				v := volley{d: d, nc: d.connOn(all[(i+1)%len(all)], user), requests: d.requests(b, user, before, forged)}
				if v.fire(); v.sent < 1000 {
					t.Errorf("%s: sent %d requests, want more", user, v.sent)
				}
			}
			b.AwaitPolling("everything as before", func() bool { return slices.Equal(kept(b), before) })
			runtest.WantError(t, "flush", b.Bus.Conn().Flush(), nil)
			runtest.EqualLists(t, "what is kept", kept(b), before)
			harness.VerifyHistory(t, b.Bus, "s1")
			b.RunTurn("s1", "t2", harness.Text("hello again"))
			runtest.EqualLists(t, "messages", b.Messages("s1"), []string{"user hello", "assistant one", "user hello again", "assistant two"})
		})
	}
}

// forgery is a piece of a blob that a client stored: a commit of its own making.
func forgery(b *harness.System, id events.SessionID) (subject string) {
	b.T.Helper()
	data, err := events.Encode(&events.Commit{
		ID: "forged", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
		Events: []events.Event{events.Of("", &events.SessionClosed{Reason: "forged"})},
	})
	runtest.WantError(b.T, "encode", err, nil)
	ref, err := b.Bus.PutBlob(b.Ctx, data)
	runtest.WantError(b.T, "put blob", err, nil)
	blobs, err := harness.JetStreamOf(b.Bus).ObjectStore(b.Ctx, "lash-blobs")
	runtest.WantError(b.T, "blobs", err, nil)
	info, err := blobs.GetInfo(b.Ctx, ref.Digest)
	runtest.WantError(b.T, "blob", err, nil)
	return "$O.lash-blobs.C." + info.NUID
}

// rested waits until projectors have nothing to write.
func rested(b *harness.System, id events.SessionID) {
	b.T.Helper()
	b.AwaitPolling("the row", func() bool {
		return b.DirectoryRow(b.Ctx, id).Seq == b.LastSeq(id)
	})
	last, same := kept(b), 0
	b.AwaitPolling("nothing is written", func() bool { // a mark is in the store until the rows of its session are written
		now := kept(b)
		marked := slices.ContainsFunc(now, func(line string) bool {
			return strings.HasPrefix(line, "lash-dirty ") && !strings.Contains(line, " 0 messages,")
		})
		if same++; marked || !slices.Equal(now, last) {
			same = 0
		}
		last = now
		return same == 5
	})
}

// kept lists the messages of the tenant's streams, and their consumers, each as a line.
func kept(b *harness.System) []string {
	b.T.Helper()
	js := harness.JetStreamOf(b.Bus)
	var list []string
	lister := js.ListStreams(b.Ctx)
	for info := range lister.Info() {
		info.Config.Metadata = nil
		cfg, err := json.Marshal(info.Config)
		runtest.WantError(b.T, "config", err, nil)
		s := info.State
		list = append(list, fmt.Sprintf("%s %d-%d %d messages, %d consumers, %s", info.Config.Name, s.FirstSeq, s.LastSeq, s.Msgs, s.Consumers, cfg))
	}
	runtest.WantError(b.T, "streams", lister.Err(), nil)
	for stream, names := range map[string][]string{"lash-work": {"turn", "agent", "task", "tool"}, "lash-dirty": {"projector"}} {
		for _, name := range names {
			c, err := js.Consumer(b.Ctx, stream, name)
			if err != nil {
				list = append(list, fmt.Sprintf("%s/%s: %v", stream, name, err))
				continue
			}
			list = append(list, fmt.Sprintf("%s/%s pending %d", stream, name, c.CachedInfo().NumPending))
		}
	}
	slices.Sort(list)
	return list
}

// connOn is a user's connection to one of the servers.
func (d *deployment) connOn(ns *server.Server, user string) *nats.Conn {
	d.t.Helper()
	refused := &bustest.Refusals{}
	nc, err := nats.Connect(ns.ClientURL(), append(d.access(user), nats.CustomInboxPrefix(inboxOf(user)), nats.ErrorHandler(refused.Handler))...)
	runtest.WantError(d.t, "connect", err, nil)
	d.t.Cleanup(func() {
		for _, what := range refused.All() {
			if !strings.Contains(what, `with Reply of "_R_.`) && !strings.Contains(what, `with Reply of "$JS.ACK.`) { // which the server refuses everybody
				d.t.Errorf("%s: %s", user, what)
			}
		}
	})
	d.t.Cleanup(nc.Close)
	return nc
}

// requests are all requests that a user's list allows, on everything that exists.
func (d *deployment) requests(b *harness.System, user string, kept []string, forged string) map[string][]string {
	d.t.Helper()
	name, _, _ := strings.Cut(user, "@")
	var streams []string
	for _, line := range kept {
		if stream, _, _ := strings.Cut(line, " "); !strings.Contains(stream, "/") {
			streams = append(streams, stream)
		}
	}
	made := make(map[string][]string)
	rows := d.permissions(name)["publish"]
	for _, row := range rows {
		switch {
		case strings.HasPrefix(row, "-"):
		case row == "lash.api.*":
			for _, e := range harness.StatsOf(d.t, b.Bus, 1)[0].Endpoints {
				made["lash.api."+e.Name] = []string{"", "{}"}
			}
		case strings.HasSuffix(row, "DIRECT.GET.>"):
			for _, stream := range streams {
				if slices.Contains(rows, "-$JS.API.DIRECT.GET."+stream) {
					continue
				}
				made["$JS.API.DIRECT.GET."+stream] = []string{"", `{"seq":1}`, `{"seq":1,"batch":2,"max_bytes":1000}`, fmt.Sprintf(`{"last_by_subj":%q}`, forged), fmt.Sprintf(`{"seq":1,"next_by_subj":%q,"batch":1,"max_bytes":1000,"no_hdr":true}`, forged)}
			}
			made["$JS.API.DIRECT.GET.OBJ_lash-blobs."+forged] = []string{""}
		case strings.Contains(row, "*"):
			for _, stream := range streams {
				if subject := strings.Replace(row, "*", stream, 1); !slices.Contains(rows, "-"+subject) {
					made[subject] = []string{""}
				}
			}
		default:
			made[row] = []string{"", "{}", `{"seq":1}`}
		}
	}
	return made
}

// volley sends requests with every such reply subject.
type volley struct {
	d        *deployment
	nc       *nats.Conn
	requests map[string][]string
	also     []string // reply subjects, besides [replySubjects]
	sent     int
}

// replySubjects are reply subjects at which a response would have an effect, were it in the tenant's inner account.
func replySubjects() []string {
	return []string{
		"$JS.API.STREAM.DELETE.lash-s-s1", "$JS.API.STREAM.PURGE.lash-s-s1", "$JS.API.STREAM.DELETE.lash-work", "$JS.API.STREAM.PURGE.OBJ_lash-blobs",
		"$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.UPDATE.lash-s-s1", "$JS.API.STREAM.MSG.DELETE.lash-s-s1", "$JS.API.STREAM.SNAPSHOT.lash-s-s1",
		"$JS.API.CONSUMER.DELETE.lash-work.turn", "$JS.API.CONSUMER.CREATE.lash-s-s1", "$JS.API.CONSUMER.PAUSE.lash-work.turn",
		"$JS.API.CONSUMER.MSG.NEXT.lash-work.turn", "$JS.API.DIRECT.GET.lash-s-s1", "$JS.API.STREAM.INFO.lash-s-s1",
		"lash.s.s1.turn", "lash.s.s1.graph", "lash.s.new.session", "lash.work.turn.s1", "lash.work.task.s1.k", "lash.timer.at.s1", "lash.dirty.s1",
		"lash.archive.s1", "lash.erased.s1", "lash.dead.s1", "lash.tries.s1", "lash.live.s1.turn", "lash.delta.s1.t1", "lash.way.s1", "lash.alive", "lash.ask.w",
		"lash.api.submit", "lash.api.close", "$KV.lash-sessions.s1", "$KV.lash-snapshots.s1", "$O.lash-blobs.C.x", "$JS.ACK.lash-work.turn.1.1.1.1.1",
		"_INBOX.node.x", "_INBOX.auditor.x", "_INBOX.bob.x", "_R_.x", "_INBOX",
	}
}

func (v *volley) fire() {
	v.d.t.Helper()
	for subject, bodies := range v.requests {
		for _, body := range bodies {
			for _, replyTo := range slices.Concat(replySubjects(), v.also) {
				runtest.WantError(v.d.t, "publish", v.nc.PublishRequest(subject, replyTo, []byte(body)), nil)
				v.sent++
			}
		}
	}
	runtest.WantError(v.d.t, "flush", v.nc.Flush(), nil)
}

// TestLiveIsNotForged has one client respond to another's watch with a commit of its own making: the other reads
// the commits of the history only.
func TestLiveIsNotForged(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", harness.Reply(harness.Text("one")))
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	forged := forgery(b, "s1")
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("host@acme"))})
	runtest.WantError(t, "client", err, nil)
	alice := d.conn("alice@acme")
	sent := false
	for seen, err := range c.Observe(b.Ctx, "s1", 0) {
		runtest.WantError(t, "observe", err, nil)
		if seen.Commit == nil {
			continue
		}
		runtest.Equal(t, "a forged commit", seen.Commit.ID == "forged", false)
		if !sent {
			sent = true
			for _, body := range []string{fmt.Sprintf(`{"last_by_subj":%q}`, forged), fmt.Sprintf(`{"seq":1,"next_by_subj":%q,"batch":1,"max_bytes":1000}`, forged)} {
				runtest.WantError(t, "publish", alice.PublishRequest("$JS.API.DIRECT.GET.OBJ_lash-blobs", "lash.live.s1.session", []byte(body)), nil)
			}
			runtest.WantError(t, "flush", alice.Flush(), nil)
			_, err := b.Submit(b.Ctx, "s1", harness.TurnRequest("t1", "hello"))
			runtest.WantError(t, "submit", err, nil)
		}
		if slices.ContainsFunc(seen.Commit.Events, func(e events.Event) bool { return e.Kind == events.KindTurnCompleted }) {
			break
		}
	}
}

// TestOuterAccountHasNoStreams tries what no list of a client's user allows, with a user of the same account whose
// list is empty: the account itself has no such streams and subjects.
func TestOuterAccountHasNoStreams(t *testing.T) {
	t.Parallel()
	d := install(t)
	d.edit("tenants/acme.conf", `    { user: "alice@acme", permissions: { include ./acme/alice.conf } }`, `    { user: "alice@acme" }`)
	d.boot()
	b := d.bundleOf("node@acme", harness.Reply(harness.Text("one")))
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	b.RunTurn("s1", "t1", harness.Text("hello"))
	rested(b, "s1")
	before := kept(b)
	alice := d.conn("alice@acme")
	subscription, err := alice.SubscribeSync(">")
	runtest.WantError(t, "subscribe", err, nil)
	for _, subject := range replySubjects() {
		if strings.HasPrefix(subject, "lash.api.") {
			continue
		}
		runtest.WantError(t, "publish", alice.PublishRequest(subject, alice.NewRespInbox(), []byte("{}")), nil)
	}
	runtest.WantError(t, "flush", alice.Flush(), nil)
	_, err = alice.RequestWithContext(b.Ctx, "$JS.API.STREAM.INFO.lash-s-s1", nil)
	runtest.WantError(t, "what is imported", err, nil)
	b.AwaitPolling("everything as before", func() bool { return slices.Equal(kept(b), before) })
	runtest.EqualLists(t, "what is kept", kept(b), before)
	b.AppendTexts("s1", "n1")
	runtest.WantError(t, "wake", b.Bus.PublishWake(bus.WakeKey{Class: "nobodys", Session: "s1", Task: "waits"}, bus.WakeHint{}), nil)
	runtest.WantError(t, "flush", b.Bus.Conn().Flush(), nil)
	runtest.WantError(t, "last", alice.Publish("last", nil), nil)
	for {
		m, err := subscription.NextMsgWithContext(b.Ctx)
		runtest.WantError(t, "received", err, nil)
		if m.Subject == "last" {
			break
		}
		if strings.HasPrefix(m.Subject, "lash.work.nobodys.") || strings.HasPrefix(m.Subject, "lash.s.") && string(m.Data) != "{}" {
			t.Errorf("heard %s %q, which is of the inner account", m.Subject, m.Data)
		}
	}
}
