package security

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/builtin/background"
)

// estate is a tenant with a hot session, a cold one, one that is hot again, and one whose body is a blob; with a
// pending command, a timer and a dead letter.
func estate(t *testing.T, d *deployment) map[events.SessionID]string {
	t.Helper()
	b := d.bundleOf("node@acme", append(exerciseScript(), harness.Reply(harness.Text("of hot")), harness.Reply(harness.Text("of cold")))...)
	n, kill := b.StartNodeOn(b.Bus, bulky(), background.Factory(background.Config{}))
	b.Host = n.Host()
	exerciseSession(b, "again")
	for _, id := range []events.SessionID{"hot", "cold"} {
		b.Open(api.CreateRequest{ID: id})
		b.RunTurn(id, "t1", harness.Text("hello"))
	}
	runtest.WantError(t, "archive", b.Bus.Archive(b.Ctx, "cold", b.LastSeq("cold")), nil)
	runtest.WantError(t, "discard", b.Bus.Discard(b.Ctx, "cold"), nil)
	kill()
	b.StartTurn("hot", "waits", harness.Text("no node is there"))
	b.ScheduleTurn("hot", "later", estateTime(), "in its time")
	letter := estateLetter()
	runtest.WantError(t, "bury", b.Bus.PutDeadLetter(b.Ctx, &letter), nil)
	defer b.Bus.Close()
	return digests(t, b.Bus)
}

// estateTime is long after the test.
func estateTime() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }

func estateLetter() bus.DeadLetter {
	return bus.DeadLetter{Session: "other", Error: "cannot be folded", Attempts: 3}
}

// checkWork checks the wake, the timer and the dead letter of an [estate].
func checkWork(b *harness.System) {
	b.T.Helper()
	runtest.Equal(b.T, "the wake", b.HasWake("hot"), true)
	runtest.EqualLists(b.T, "timers", b.Timers(), []string{"hot"})
	letter, err := b.Bus.DeadLetter(b.Ctx, "other")
	runtest.WantError(b.T, "the dead letter", err, nil)
	runtest.Equal(b.T, "error of the dead letter", letter.Error, estateLetter().Error)
}

// digests verifies every history and returns the digests of the folded states.
func digests(t *testing.T, b *bus.Bus) map[events.SessionID]string {
	t.Helper()
	list := make(map[events.SessionID]string)
	for id, err := range b.Sessions(harness.Context(t)) {
		runtest.WantError(t, "sessions", err, nil)
		v := projector.NewVerifier(id)
		for e, err := range b.Log().Read(harness.Context(t), id, 1) {
			runtest.NoError(t, err)
			found, err := follow.Verify(harness.Context(t), b, v, e)
			runtest.WantError(t, "verify", err, nil)
			for _, bad := range found {
				t.Errorf("%s: %+v", id, bad)
			}
		}
		for _, bad := range v.Check() {
			t.Errorf("%s: %+v", id, bad)
		}
		head, _, err := v.State().Snapshot()
		runtest.WantError(t, "encode", err, nil)
		list[id] = string(head)
	}
	return list
}

// same compares the restored tenant with the original, and runs one more turn on it.
func same(t *testing.T, d *deployment, want map[events.SessionID]string) {
	t.Helper()
	b := d.bundleOf("node@acme", harness.Reply(harness.Text("as before")), harness.Reply(harness.Text("as before")), harness.Reply(harness.Text("as before")), harness.Reply(harness.Text("as before")))
	got := digests(t, b.Bus)
	if len(got) != 3 || len(want) != 3 {
		t.Errorf("sessions: got %d, had %d, want 3", len(got), len(want))
	}
	for id, state := range want {
		if got[id] != state {
			t.Errorf("%s: got another state than there was", id)
		}
	}
	checkWork(b)
	b.StartNode(bulky())
	runtest.Equal(t, "end of the turn that waited", b.AwaitTurn("hot", "waits").End, events.EndFinished)
	for id := range want {
		runtest.Equal(t, string(id), b.RunTurn(id, "after", harness.Text("and now")).Text, "as before")
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
	runtest.WantError(t, "copy", os.CopyFS(filepath.Join(other.dir, "store"), os.DirFS(filepath.Join(d.dir, "store"))), nil)
	same(t, other.boot(), want)
}

// TestBackupStreams copies the streams of a running server with a backup's permissions, in the order of the guide,
// into an empty server.
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
	other.serveAudits(other.config("reader@acme"))
	auditor := other.open(bus.OpenReader, other.config("auditor@acme")) // before a node starts
	runtest.Equal(t, "sessions that an auditor verifies", len(digests(t, auditor)), len(want))
	same(t, other, want)
}

// backupOrder sorts streams as OPERATING.md says, and leaves out those that nodes rebuild.
func backupOrder(names []string) (list []string) {
	made := []string{"lash-dirty", "lash-delta"}
	rank := func(name string) int {
		order := []string{"KV_lash-", "lash-work", "lash-timers", "lash-dead", "lash-s-", "lash-archive", "OBJ_lash-blobs"}
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

// backupUser speaks JetStream's snapshot protocol, as nats stream backup does.
type backupUser struct {
	t   *testing.T
	ctx context.Context
	nc  *nats.Conn
}

func (d *deployment) clerk() *backupUser {
	d.t.Helper()
	return &backupUser{d.t, harness.Context(d.t), d.conn("backup@acme")}
}

// stream is a stream's backup.
type stream struct {
	name          string
	config, state json.RawMessage
	chunks        [][]byte
}

// request sends a request to the server and reads the response.
func (k *backupUser) request(subject string, body, answer any) {
	k.t.Helper()
	data, err := json.Marshal(body)
	runtest.WantError(k.t, "encode", err, nil)
	m, err := k.nc.RequestWithContext(k.ctx, subject, data)
	if err != nil {
		k.t.Fatalf("%s: %v", subject, err)
	}
	var failed struct{ Error *struct{ Description string } }
	if err := json.Unmarshal(m.Data, &failed); err != nil || failed.Error != nil {
		k.t.Fatalf("%s: %s", subject, m.Data)
	}
	runtest.WantError(k.t, "decode", json.Unmarshal(m.Data, answer), nil)
}

func (k *backupUser) names() []string {
	k.t.Helper()
	var answer struct{ Streams []string }
	k.request("$JS.API.STREAM.NAMES", struct{}{}, &answer)
	return answer.Streams
}

func (k *backupUser) save(name string) stream {
	k.t.Helper()
	inbox := k.nc.NewInbox()
	sub, err := k.nc.SubscribeSync(inbox)
	runtest.WantError(k.t, "subscribe", err, nil)
	defer sub.Unsubscribe() //nolint:errcheck // the connection ends with the test
	var answer struct{ Config, State json.RawMessage }
	k.request("$JS.API.STREAM.SNAPSHOT."+name, map[string]any{"deliver_subject": inbox, "jsck": true}, &answer)
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
			runtest.WantError(k.t, "acknowledge", m.Respond(nil), nil)
		}
	}
}

func (k *backupUser) restore(s stream) {
	k.t.Helper()
	var delivery struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	k.request("$JS.API.STREAM.RESTORE."+s.name, map[string]any{"config": s.config, "state": s.state}, &delivery)
	for _, chunk := range append(s.chunks, nil) {
		m, err := k.nc.RequestWithContext(k.ctx, delivery.DeliverSubject, chunk)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			k.t.Fatalf("restore %s: %v %v", s.name, err, m)
		}
	}
}

// TestBackupRunning copies the streams of a server during turns, as the guide allows. The restored histories are
// prefixes of the originals, and their pending work runs.
func TestBackupRunning(t *testing.T) {
	t.Parallel()
	const sessions = 4
	d := install(t).boot()
	always := slices.Repeat([]harness.Step{harness.Reply(harness.Text("as ever"))}, 1<<16)
	b := d.bundleOf("node@acme", always...)
	b.StartNode()
	stop, ended := make(chan struct{}), make(chan struct{}, 1<<16)
	var load sync.WaitGroup
	for i := range sessions {
		id := b.Open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", i))})
		load.Go(func() {
			for turn := 1; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: events.TurnID(fmt.Sprintf("t%d", turn)), Input: api.Ask("go").Input})
				if err != nil {
					t.Errorf("%s, turn %d: %v", id, turn, err)
					return
				}
				ended <- struct{}{}
			}
		})
	}
	for range 5 * sessions {
		harness.Receive(b, "turn", ended)
	}
	from := d.clerk()
	var saved []stream
	for _, name := range backupOrder(from.names()) {
		saved = append(saved, from.save(name))
		harness.Receive(b, "turn meanwhile", ended)
	}
	close(stop)
	load.Wait()
	other := install(t).boot()
	to := other.clerk()
	for _, s := range saved {
		to.restore(s)
	}
	after := other.bundleOf("node@acme", always...)
	if got := len(digests(t, after.Bus)); got != sessions { // which verifies them
		t.Fatalf("got %d sessions, had %d", got, sessions)
	}
	for i := range sessions {
		beginning(t, b.Bus, after.Bus, events.SessionID(fmt.Sprintf("s%d", i)))
	}
	after.StartNode()
	for i := range sessions {
		id := events.SessionID(fmt.Sprintf("s%d", i))
		after.AwaitState(id, "nothing owed", func(s *projector.State) bool { return s.Turn() == nil && len(s.Queue) == 0 })
		runtest.Equal(t, string(id), after.RunTurn(id, "after", harness.Text("and now")).Text, "as ever")
		harness.VerifyHistory(t, after.Bus, id)
	}
}

// beginning checks that one server's history is a prefix of another's, to the byte.
func beginning(t *testing.T, of, is *bus.Bus, id events.SessionID) {
	t.Helper()
	next, done := iter.Pull2(of.Log().Read(harness.Context(t), id, 1))
	defer done()
	n := 0
	for have, err := range is.Log().Read(harness.Context(t), id, 1) {
		runtest.WantError(t, "read what was restored", err, nil)
		want, err, ok := next()
		runtest.WantError(t, "read what there was", err, nil)
		if !ok || !bytes.Equal(have.Data, want.Data) {
			t.Fatalf("%s: sequence %d is not what it was", id, have.Seq)
		}
		n++
	}
	if n == 0 {
		t.Errorf("%s: nothing was restored", id)
	}
}
