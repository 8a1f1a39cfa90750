package harness

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/client"
)

// OpenReader opens a bus as a client does, which creates no stream.
func OpenReader(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.OpenReader(Context(t), bustest.WithKeys(t, cfg))
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// Dial opens a client.
func Dial(t *testing.T, on *bus.Bus) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Bus: on, Actor: "ide", Logger: zaptest.NewLogger(t)})
	runtest.NoError(t, err)
	return c
}

// JetStreamOf is the JetStream interface of a bus.
func JetStreamOf(b *bus.Bus) jetstream.JetStream {
	js, _ := jetstream.New(b.Conn()) // it returns an error for bad options only
	return js
}

// StatsOf requests the statistics of every instance of the service, as any NATS tool does, until n have responded.
func StatsOf(t *testing.T, on *bus.Bus, n int) []micro.Stats {
	t.Helper()
	inbox := on.Conn().NewRespInbox()
	sub, err := on.Conn().SubscribeSync(inbox)
	runtest.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	if err := on.Conn().PublishRequest("$SRV.STATS.lash-api", inbox, nil); err != nil {
		t.Fatal(err)
	}
	var list []micro.Stats
	for len(list) < n {
		m, err := sub.NextMsgWithContext(Context(t))
		runtest.NoError(t, err)
		var s micro.Stats
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}
