package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/builtin/background"
)

// estate is a tenant with a hot session, a cold one, one that is hot again,
// and one whose body is a blob; and a command, a timer and a dead letter that wait.
func estate(t *testing.T, d *deployment) map[events.SessionID]string {
	t.Helper()
	b := d.bundleOf("node@acme", append(everythingScript(), reply(text("of hot")), reply(text("of cold")))...)
	n, kill := b.nodeOn(b.bus, bulky(), background.Factory(background.Config{}))
	b.Host = n.Host()
	everything(b, "again")
	for _, id := range []events.SessionID{"hot", "cold"} {
		b.open(api.CreateRequest{ID: id})
		b.run(id, "t1", text("hello"))
	}
	must(t, "archive", b.bus.Archive(b.ctx, "cold", b.last("cold")), nil)
	must(t, "discard", b.bus.Discard(b.ctx, "cold"), nil)
	kill()
	b.submit("hot", "waits", text("no node is there"))
	b.submitAt("hot", "later", estateTime(), "in its time")
	letter := estateLetter()
	must(t, "bury", b.bus.PutDead(b.ctx, &letter), nil)
	defer b.bus.Close()
	return digests(t, b.bus)
}

// estateTime is long after the test.
func estateTime() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }

func estateLetter() bus.DeadLetter {
	return bus.DeadLetter{Session: "other", Error: "cannot be folded", Attempts: 3}
}

// owed wants the wake, the timer and the dead letter of an [estate].
func owed(b *bundle) {
	b.t.Helper()
	equal(b.t, "the wake", b.woken("hot"), true)
	equalLists(b.t, "timers", b.timers(), []string{"hot"})
	letter, err := b.bus.DeadLetter(b.ctx, "other")
	must(b.t, "the dead letter", err, nil)
	equal(b.t, "error of the dead letter", letter.Error, estateLetter().Error)
}

// digests verifies every history there is and says what it folds to.
func digests(t *testing.T, b *bus.Bus) map[events.SessionID]string {
	t.Helper()
	list := make(map[events.SessionID]string)
	for id, err := range b.Sessions(limited(t)) {
		must(t, "sessions", err, nil)
		v := projector.NewVerifier(id)
		for e, err := range b.Log().Read(limited(t), id, 1) {
			if err != nil {
				t.Fatal(err)
			}
			found, err := follow.Verify(limited(t), b, v, e)
			must(t, "verify", err, nil)
			for _, bad := range found {
				t.Errorf("%s: %+v", id, bad)
			}
		}
		for _, bad := range v.Check() {
			t.Errorf("%s: %+v", id, bad)
		}
		head, _, err := v.State().Snapshot()
		must(t, "encode", err, nil)
		list[id] = string(head)
	}
	return list
}

// same compares what was restored with what there was, and runs one more turn on it.
func same(t *testing.T, d *deployment, want map[events.SessionID]string) {
	t.Helper()
	b := d.bundleOf("node@acme", reply(text("as before")), reply(text("as before")), reply(text("as before")), reply(text("as before")))
	got := digests(t, b.bus)
	if len(got) != 3 || len(want) != 3 {
		t.Errorf("sessions: got %d, had %d, want 3", len(got), len(want))
	}
	for id, state := range want {
		if got[id] != state {
			t.Errorf("%s: got another state than there was", id)
		}
	}
	owed(b)
	b.node(bulky())
	equal(t, "end of the turn that waited", b.ended("hot", "waits").End, events.EndFinished)
	for id := range want {
		equal(t, string(id), b.run(id, "after", text("and now")).Text, "as before")
	}
}

// TestBackupCopy copies the store of a stopped server and starts another on it.
func TestBackupCopy(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	want := estate(t, d)
	d.ns.Shutdown()
	d.ns.WaitForShutdown()
	other := install(t)
	must(t, "copy", os.CopyFS(filepath.Join(other.dir, "store"), os.DirFS(filepath.Join(d.dir, "store"))), nil)
	same(t, other.boot(), want)
}

// TestBackupStreams copies the streams of a running server with a backup's
// permissions, in the order that the guide gives, into an empty server.
func TestBackupStreams(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	want := estate(t, d)
	from := d.clerk()
	var saved []stream
	for _, name := range backupOrder(from.names()) {
		saved = append(saved, from.save(name))
	}
	other := install(t).boot()
	to := other.clerk()
	for _, s := range saved {
		to.restore(s)
	}
	same(t, other, want)
}

// backupOrder sorts streams as OPERATING.md says, and leaves out what is made again.
func backupOrder(names []string) (list []string) {
	made := []string{"lash-dirty", "lash-delta", "KV_lash-sessions", "KV_lash-catalog", "KV_lash-snapshots"}
	rank := func(name string) int {
		order := []string{"lash-work", "lash-timers", "lash-dead", "lash-s-", "lash-archive", "OBJ_lash-blobs"}
		return slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	for _, name := range names {
		if !slices.Contains(made, name) {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}

// clerk speaks JetStream's snapshot protocol, as nats stream backup does.
type clerk struct {
	t   *testing.T
	ctx context.Context
	nc  *nats.Conn
}

func (d *deployment) clerk() *clerk {
	d.t.Helper()
	return &clerk{d.t, limited(d.t), d.conn("backup@acme")}
}

// stream is a stream's backup.
type stream struct {
	name          string
	config, state json.RawMessage
	chunks        [][]byte
}

// ask makes a request of the server's and reads the answer.
func (k *clerk) ask(subject string, body, answer any) {
	k.t.Helper()
	data, err := json.Marshal(body)
	must(k.t, "encode", err, nil)
	m, err := k.nc.RequestWithContext(k.ctx, subject, data)
	if err != nil {
		k.t.Fatalf("%s: %v", subject, err)
	}
	var failed struct{ Error *struct{ Description string } }
	if err := json.Unmarshal(m.Data, &failed); err != nil || failed.Error != nil {
		k.t.Fatalf("%s: %s", subject, m.Data)
	}
	must(k.t, "decode", json.Unmarshal(m.Data, answer), nil)
}

func (k *clerk) names() []string {
	k.t.Helper()
	var answer struct{ Streams []string }
	k.ask("$JS.API.STREAM.NAMES", struct{}{}, &answer)
	return answer.Streams
}

func (k *clerk) save(name string) stream {
	k.t.Helper()
	inbox := k.nc.NewInbox()
	sub, err := k.nc.SubscribeSync(inbox)
	must(k.t, "subscribe", err, nil)
	defer sub.Unsubscribe() //nolint:errcheck // the connection ends with the test
	var answer struct{ Config, State json.RawMessage }
	k.ask("$JS.API.STREAM.SNAPSHOT."+name, map[string]any{"deliver_subject": inbox, "jsck": true}, &answer)
	s := stream{name: name, config: answer.Config, state: answer.State}
	for {
		m, err := sub.NextMsgWithContext(k.ctx)
		if err != nil {
			k.t.Fatalf("snapshot of %s: %v", name, err)
		}
		if len(m.Data) == 0 { // the end
			return s
		}
		s.chunks = append(s.chunks, m.Data)
		if m.Reply != "" {
			must(k.t, "acknowledge", m.Respond(nil), nil)
		}
	}
}

func (k *clerk) restore(s stream) {
	k.t.Helper()
	var begun struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	k.ask("$JS.API.STREAM.RESTORE."+s.name, map[string]any{"config": s.config, "state": s.state}, &begun)
	for _, chunk := range append(s.chunks, nil) {
		m, err := k.nc.RequestWithContext(k.ctx, begun.DeliverSubject, chunk)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			k.t.Fatalf("restore %s: %v %v", s.name, err, m)
		}
	}
}

// TestBackupRunning copies the streams of a server while turns run on it, as
// the guide allows. What is restored are beginnings of the histories there
// were, and what they owe is done.
func TestBackupRunning(t *testing.T) {
	t.Parallel()
	const sessions = 4
	d := install(t).boot()
	always := slices.Repeat([]step{reply(text("as ever"))}, 1<<16)
	b := d.bundleOf("node@acme", always...)
	b.node()
	stop, ended := make(chan struct{}), make(chan struct{}, 1<<16)
	var load sync.WaitGroup
	for i := range sessions {
		id := b.open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", i))})
		load.Go(func() {
			for turn := 1; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := b.Run(b.ctx, id, api.TurnRequest{ID: events.TurnID(fmt.Sprintf("t%d", turn)), Input: api.Ask("go").Input})
				if err != nil {
					t.Errorf("%s, turn %d: %v", id, turn, err)
					return
				}
				ended <- struct{}{}
			}
		})
	}
	for range 5 * sessions {
		receive(b, "turn", ended)
	}
	from := d.clerk()
	var saved []stream
	for _, name := range backupOrder(from.names()) {
		saved = append(saved, from.save(name))
		receive(b, "turn meanwhile", ended)
	}
	close(stop)
	load.Wait()
	other := install(t).boot()
	to := other.clerk()
	for _, s := range saved {
		to.restore(s)
	}
	after := other.bundleOf("node@acme", always...)
	if got := len(digests(t, after.bus)); got != sessions { // which verifies them
		t.Fatalf("got %d sessions, had %d", got, sessions)
	}
	for i := range sessions {
		beginning(t, b.bus, after.bus, events.SessionID(fmt.Sprintf("s%d", i)))
	}
	after.node()
	for i := range sessions {
		id := events.SessionID(fmt.Sprintf("s%d", i))
		after.await(id, "nothing owed", func(s *projector.State) bool { return s.Turn() == nil && len(s.Queue) == 0 })
		equal(t, string(id), after.run(id, "after", text("and now")).Text, "as ever")
		verified(t, after.bus, id)
	}
}

// beginning wants one server's history to be the beginning of another's, to the byte.
func beginning(t *testing.T, of, is *bus.Bus, id events.SessionID) {
	t.Helper()
	next, done := iter.Pull2(of.Log().Read(limited(t), id, 1))
	defer done()
	n := 0
	for have, err := range is.Log().Read(limited(t), id, 1) {
		must(t, "read what was restored", err, nil)
		want, err, ok := next()
		must(t, "read what there was", err, nil)
		if !ok || !bytes.Equal(have.Data, want.Data) {
			t.Fatalf("%s: sequence %d is not what it was", id, have.Seq)
		}
		n++
	}
	if n == 0 {
		t.Errorf("%s: nothing was restored", id)
	}
}
