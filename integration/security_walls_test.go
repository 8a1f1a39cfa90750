package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// TestRepliesReachNothing has clients send every request that their lists
// allow, and name for its answer every kind of subject at which a message does
// something. The server sends an answer wherever the request says; in the outer
// account there is nothing to hit. Everything that the servers keep is as before.
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
			b := &bundle{t: t, ctx: limited(t), model: &model{t: t, script: []step{reply(text("one")), reply(text("two"))}}}
			b.bus = d.open(bus.Open, cfg)
			n, _ := b.nodeOn(b.bus)
			b.Host = n.Host()
			b.open(api.CreateRequest{ID: "s1"})
			b.run("s1", "t1", text("hello"))
			forged := b.forgery("s1")
			b.rested("s1")
			before := b.kept()
			for i, user := range []string{"alice@acme", "auditor@acme"} { // on two servers, of which one does not lead what is asked for
				v := volley{d: d, nc: d.connOn(all[(i+1)%len(all)], user), requests: d.requests(b, user, before, forged)}
				if v.fire(); v.sent < 1000 {
					t.Errorf("%s: sent %d requests, want more", user, v.sent)
				}
			}
			b.until("everything as before", func() bool { return slices.Equal(b.kept(), before) })
			must(t, "flush", b.bus.Conn().Flush(), nil)
			equalLists(t, "what is kept", b.kept(), before)
			verified(t, b.bus, "s1")
			b.run("s1", "t2", text("hello again"))
			equalLists(t, "messages", b.messages("s1"), []string{"user hello", "assistant one", "user hello again", "assistant two"})
		})
	}
}

// forgery is the piece of a blob that a client stored: a commit of its own making.
func (b *bundle) forgery(id events.SessionID) (subject string) {
	b.t.Helper()
	data, err := events.Encode(&events.Commit{
		ID: "forged", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
		Events: []events.Event{events.Of("", &events.SessionClosed{Reason: "forged"})},
	})
	must(b.t, "encode", err, nil)
	ref, err := b.bus.PutBlob(b.ctx, data)
	must(b.t, "put blob", err, nil)
	blobs, err := jetstreamOf(b.bus).ObjectStore(b.ctx, "lash-blobs")
	must(b.t, "blobs", err, nil)
	info, err := blobs.GetInfo(b.ctx, ref.Digest)
	must(b.t, "blob", err, nil)
	return "$O.lash-blobs.C." + info.NUID
}

// rested waits until projectors have nothing to write.
func (b *bundle) rested(id events.SessionID) {
	b.t.Helper()
	b.until("the row", func() bool {
		row, err := b.bus.Directory().Get(b.ctx, id)
		return err == nil && row.Revision > 0
	})
	last, same := b.kept(), 0
	b.until("nothing is written", func() bool { // rows are written once a second at most
		time.Sleep(300 * time.Millisecond)
		now := b.kept()
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

// kept is what the tenant's streams hold, and their consumers, each as a line.
func (b *bundle) kept() []string {
	b.t.Helper()
	js := jetstreamOf(b.bus)
	var list []string
	lister := js.ListStreams(b.ctx)
	for info := range lister.Info() {
		info.Config.Metadata = nil
		cfg, err := json.Marshal(info.Config)
		must(b.t, "config", err, nil)
		s := info.State
		list = append(list, fmt.Sprintf("%s %d-%d %d messages, %d consumers, %s", info.Config.Name, s.FirstSeq, s.LastSeq, s.Msgs, s.Consumers, cfg))
	}
	must(b.t, "streams", lister.Err(), nil)
	for stream, names := range map[string][]string{"lash-work": {"turn", "task", "tool"}, "lash-dirty": {"projector"}} {
		for _, name := range names {
			c, err := js.Consumer(b.ctx, stream, name)
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

// connOn is a user's bare connection to one of the servers.
func (d *deployment) connOn(ns *server.Server, user string) *nats.Conn {
	d.t.Helper()
	refused := &refusals{}
	nc, err := nats.Connect(ns.ClientURL(), append(d.access(user), nats.CustomInboxPrefix(inboxOf(user)), nats.ErrorHandler(refused.handler))...)
	must(d.t, "connect", err, nil)
	d.t.Cleanup(func() {
		for _, what := range refused.all() {
			if !strings.Contains(what, `with Reply of "_R_.`) && !strings.Contains(what, `with Reply of "$JS.ACK.`) { // which the server refuses everybody
				d.t.Errorf("%s: %s", user, what)
			}
		}
	})
	d.t.Cleanup(nc.Close)
	return nc
}

// requests are all that a user's list allows, on everything that there is.
func (d *deployment) requests(b *bundle, user string, kept []string, forged string) map[string][]string {
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
			for _, e := range statsOf(d.t, b.bus, 1)[0].Endpoints {
				made["lash.api."+e.Name] = []string{"", "{}"}
			}
		case strings.HasSuffix(row, "DIRECT.GET.>"):
			for _, stream := range streams {
				if slices.Contains(rows, "-$JS.API.DIRECT.GET."+stream) {
					continue
				}
				made["$JS.API.DIRECT.GET."+stream] = []string{"", `{"seq":1}`, `{"seq":1,"batch":2}`, fmt.Sprintf(`{"last_by_subj":%q}`, forged), fmt.Sprintf(`{"seq":1,"next_by_subj":%q,"batch":1,"no_hdr":true}`, forged)}
			}
			made["$JS.API.DIRECT.GET.OBJ_lash-blobs."+forged] = []string{""}
		case strings.Contains(row, "*"):
			for _, stream := range streams {
				made[strings.Replace(row, "*", stream, 1)] = []string{""}
			}
		default:
			made[row] = []string{"", "{}", `{"seq":1}`}
		}
	}
	return made
}

// volley sends requests with every answer's place.
type volley struct {
	d        *deployment
	nc       *nats.Conn
	requests map[string][]string
	sent     int
}

// places are where an answer would do something, were it in the tenant's inner account.
func places() []string {
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
			for _, place := range places() {
				must(v.d.t, "publish", v.nc.PublishRequest(subject, place, []byte(body)), nil)
				v.sent++
			}
		}
	}
	must(v.d.t, "flush", v.nc.Flush(), nil)
}

// TestLiveIsNotForged has one client answer another's watch with a commit of its
// own making: the other sees what the history has, and nothing else.
func TestLiveIsNotForged(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", reply(text("one")))
	b.node()
	b.open(api.CreateRequest{ID: "s1"})
	forged := b.forgery("s1")
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("host@acme"))})
	must(t, "client", err, nil)
	alice := d.conn("alice@acme")
	sent := false
	for seen, err := range c.Observe(b.ctx, "s1", 0) {
		must(t, "observe", err, nil)
		if seen.Commit == nil {
			continue
		}
		equal(t, "a forged commit", seen.Commit.ID == "forged", false)
		if !sent {
			sent = true
			for _, body := range []string{fmt.Sprintf(`{"last_by_subj":%q}`, forged), fmt.Sprintf(`{"seq":1,"next_by_subj":%q,"batch":1}`, forged)} {
				must(t, "publish", alice.PublishRequest("$JS.API.DIRECT.GET.OBJ_lash-blobs", "lash.live.s1.session", []byte(body)), nil)
			}
			must(t, "flush", alice.Flush(), nil)
			_, err := b.Submit(b.ctx, "s1", asksTurn("t1", "hello"))
			must(t, "submit", err, nil)
		}
		if slices.ContainsFunc(seen.Commit.Events, func(e events.Event) bool { return e.Kind == events.KindTurnCompleted }) {
			break
		}
	}
}

// TestOuterAccountHasNothing tries what no list of a client's user holds, with a
// user of the same account whose list is empty: the account itself is the wall.
func TestOuterAccountHasNothing(t *testing.T) {
	t.Parallel()
	d := install(t)
	d.edit("tenants/acme.conf", `    { user: "alice@acme", permissions: { include ./acme/alice.conf } }`, `    { user: "alice@acme" }`)
	d.boot()
	b := d.bundleOf("node@acme", reply(text("one")))
	b.node()
	b.open(api.CreateRequest{ID: "s1"})
	b.run("s1", "t1", text("hello"))
	b.rested("s1")
	before := b.kept()
	alice := d.conn("alice@acme")
	heard, err := alice.SubscribeSync(">")
	must(t, "subscribe", err, nil)
	for _, subject := range places() {
		if strings.HasPrefix(subject, "lash.api.") {
			continue
		}
		must(t, "publish", alice.PublishRequest(subject, alice.NewRespInbox(), []byte("{}")), nil)
	}
	must(t, "flush", alice.Flush(), nil)
	_, err = alice.RequestWithContext(b.ctx, "$JS.API.STREAM.INFO.lash-s-s1", nil)
	must(t, "what is imported", err, nil)
	b.until("everything as before", func() bool { return slices.Equal(b.kept(), before) })
	equalLists(t, "what is kept", b.kept(), before)
	b.say("s1", "n1")
	must(t, "wake", b.bus.PublishWake(bus.WakeKey{Class: "nobodys", Session: "s1", Task: "waits"}, bus.WakeHint{}), nil)
	must(t, "flush", b.bus.Conn().Flush(), nil)
	must(t, "last", alice.Publish("last", nil), nil)
	for {
		m, err := heard.NextMsgWithContext(b.ctx)
		must(t, "heard", err, nil)
		if m.Subject == "last" {
			break
		}
		if strings.HasPrefix(m.Subject, "lash.work.nobodys.") || strings.HasPrefix(m.Subject, "lash.s.") && string(m.Data) != "{}" {
			t.Errorf("heard %s %q, which is of the inner account", m.Subject, m.Data)
		}
	}
}
