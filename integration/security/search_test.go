package security

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// TestSearchWithoutKey searches sessions with encrypted bodies, with an index row and without, with the key and without it. Without it they
// are not found, by their texts or otherwise, and do not fail the search.
func TestSearchWithoutKey(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := harness.StartWith(t, server, bustest.OpenWith(t, server, bustest.Keys(t)))
	for _, id := range []events.SessionID{"hot", "unindexed"} {
		b.ByHand(id)
		said := &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text("a secret needle")}}}
		for i, e := range []events.Event{events.Of("", &events.SessionOpened{}), events.Of("t1", said)} {
			c := &events.Commit{ID: events.CommitID(string(id) + string(e.Kind)), Session: id, At: 1_745_000_000_000, Actor: events.Actor{Kind: events.ActorClient, ID: "me"}, Events: []events.Event{e}}
			_, err := b.Bus.Log().Append(b.Ctx, c, events.Seq(i))
			runtest.WantError(t, "append", err, nil)
		}
		runtest.WantError(t, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
	}
	rows, _ := b.Bus.Index()
	_, err := rows.Update(b.Ctx, "unindexed", func(bus.Row) ([]byte, error) { return []byte("damaged"), nil })
	runtest.WantError(t, "unindex", err, nil)
	without, err := bus.OpenReader(b.Ctx, bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.WantError(t, "open", err, nil)
	t.Cleanup(without.Close)
	for name, c := range map[string]struct {
		on   *bus.Bus
		want int
	}{"with": {b.Bus, 2}, "without": {without, 0}} {
		reader, err := client.New(client.Config{Bus: c.on})
		runtest.WantError(t, "client", err, nil)
		for what, q := range map[string]index.Query{"text": {Texts: []string{"needle"}}, "actor": {Actor: "me"}, "time": {Since: 1}} {
			page, err := reader.Search(b.Ctx, api.SearchQuery{Query: q})
			runtest.WantError(t, what+" "+name+" the key", err, nil)
			runtest.Equal(t, what+" "+name+" the key", len(page.Sessions), c.want)
		}
	}
}
