package wake

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// bundle is a server, a host and a sweeper, without a worker.
type bundle struct {
	t      *testing.T
	server *busembed.Server
	bus    *bus.Bus
	host   *session.Host
	sweep  *Sweeper
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, server: bustest.Server(t, busembed.Config{})}
	b.bus = bustest.Open(t, b.server)
	var err error
	if b.host, err = session.New(session.Config{Bus: b.bus, Plugins: session.NoPlugins()}); err != nil {
		t.Fatal(err)
	}
	b.sweep = NewSweeper(b.bus, b.host.Worker(), func() bool { return true }, zaptest.NewLogger(t))
	b.sweep.quiet, b.sweep.opening = time.Nanosecond, time.Nanosecond
	return b
}

func (b *bundle) create(id events.SessionID) {
	b.t.Helper()
	_, err := b.host.Create(b.t.Context(), api.CreateRequest{ID: id})
	runtest.NoError(b.t, err)
}

func (b *bundle) submit(id events.SessionID, name events.TurnID) {
	b.t.Helper()
	req := api.Ask("go")
	req.ID = name
	_, err := b.host.Submit(b.t.Context(), id, req)
	runtest.NoError(b.t, err)
}

// append appends events as a worker.
func (b *bundle) append(id events.SessionID, turn events.TurnID, list ...events.Payload) events.Seq {
	b.t.Helper()
	last, err := b.bus.Log().Last(b.t.Context(), id)
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		b.t.Fatal(err)
	}
	c := &events.Commit{
		ID: events.CommitID(time.Now().Format("150405.000000000")), Session: id,
		At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
	}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	seq, err := b.bus.Log().Append(b.t.Context(), c, last)
	runtest.NoError(b.t, err)
	return seq
}

// fetchWake fetches a wake, with or without an ack.
func (b *bundle) fetchWake(class bus.Class, ack bool) *bus.Wake {
	b.t.Helper()
	q, err := b.bus.Queue(b.t.Context(), class)
	runtest.NoError(b.t, err)
	var w *bus.Wake
	if _, err := q.Fetch(b.t.Context(), 1, time.Minute, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		b.t.Fatalf("fetch: got %v, %v, want a wake", w, err)
	}
	if ack {
		_, err = b.bus.Conn().RequestWithContext(b.t.Context(), w.Handle(), []byte("+ACK"))
		runtest.NoError(b.t, err)
	}
	return w
}

// wakes lists the wakes after the queue has received all that this bus published.
func (b *bundle) wakes() map[bus.WakeKey]bool {
	b.t.Helper()
	const last = "lash.work.task.last.last"
	js, err := jetstream.New(b.bus.Conn())
	if err == nil {
		_, err = js.Publish(b.t.Context(), last, nil)
	}
	runtest.NoError(b.t, err)
	stream, err := js.Stream(b.t.Context(), "lash-work")
	if err == nil {
		err = stream.Purge(b.t.Context(), jetstream.WithPurgeSubject(last))
	}
	runtest.NoError(b.t, err)
	list, err := b.bus.Wakes(b.t.Context())
	runtest.NoError(b.t, err)
	return list
}

func (b *bundle) swept() {
	b.t.Helper()
	runtest.WantError(b.t, "sweep", b.sweep.Sweep(b.t.Context()), nil)
}

// candidate reports whether a session is a candidate of the next sweep.
func (b *bundle) candidate(id events.SessionID) bool {
	b.sweep.mu.Lock()
	defer b.sweep.mu.Unlock()
	return b.sweep.candidates[id] != nil
}
