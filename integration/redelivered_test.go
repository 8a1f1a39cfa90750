package integration

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// TestRedelivered has a worker get a message that another had before, of a
// session in which its turn waits: it puts one new command there, and no more,
// though it may itself get that before it has let go of the first.
func TestRedelivered(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("done")))
	id := b.open(session.CreateRequest{})
	c := &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("t1", &events.TurnRequested{Input: session.Ask("go").Input})},
	}
	_, err := b.bus.Log().Append(b.ctx, c, events.At(1))
	must(t, "append", err, nil)
	b.submit(id, "t1", text("go"))
	queue, err := b.bus.Work(b.ctx, bus.ClassTurn)
	must(t, "join", err, nil)
	must(t, "fetch", queue.Fetch(b.ctx, 1, time.Minute, func(j *bus.Job) { must(t, "give back", j.HandBack(b.ctx), nil) }), nil)
	b.work(b.bus)
	record := b.ended(id, "t1")
	equal(t, "attempts", record.Attempts, 1)
	js, err := jetstream.New(b.bus.Conn())
	must(t, "jetstream", err, nil)
	stream, err := js.Stream(b.ctx, "lash-work")
	must(t, "stream", err, nil)
	equal(t, "commands", stream.CachedInfo().State.LastSeq, 2)
	verified(t, b.bus.Log(), id)
}
