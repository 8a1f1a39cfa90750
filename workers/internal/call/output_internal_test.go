package call

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// TestOutputToAndFroIsPaced prints a lot at offsets that go back and forth, as a program of its own may. What the
// watchers get keeps the pace of a call.
func TestOutputToAndFroIsPaced(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	nc, err := nats.Connect(server.URL())
	runtest.NoError(t, err)
	defer nc.Close()
	var got atomic.Int64
	end := make(chan struct{})
	if _, err := nc.Subscribe("lash.>", func(m *nats.Msg) {
		if m.Subject == "lash.end" {
			close(end)
			return
		}
		got.Add(1)
	}); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	on := bustest.Open(t, server)
	d := &dispatch{env: &Env{Bus: on}, at: &Snapshot{state: new(projector.State), session: "s", turn: "t1"}, call: turn.Call{Effect: "t1/0/0"}}
	shown, began := &printer{d: d, attempt: 1}, time.Now()
	prints := 0
	bustest.Eventually(t, "pieces", func() bool {
		for range 100 {
			shown.print(plugin.StreamStdout, int64(prints%2)*100, "text")
			prints++
		}
		return got.Load() > 4
	})
	shown.close()
	most := int64(time.Since(began)/time.Second+1) * (wire.OutputsPerSecond + 8) // each run of the tool has a rest
	runtest.NoError(t, on.Ready(t.Context()))
	runtest.NoError(t, on.Conn().Publish("lash.end", nil))
	bustest.Receive(t, "what follows the last piece", end)
	if n := got.Load(); n == 0 || n > most {
		t.Errorf("pieces: got %d of %d prints, want 1 to %d", n, prints, most)
	}
}

// TestStreamedOutputHasTheServersTime has a node whose clock is hours off: watchers compare the times of calls with those of other nodes.
func TestStreamedOutputHasTheServersTime(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	on.Later(-3 * time.Hour)
	sub, err := on.Conn().SubscribeSync("lash.delta.>")
	runtest.NoError(t, err)
	d := &dispatch{env: &Env{Bus: on}, at: &Snapshot{state: new(projector.State), session: "s", turn: "t1"}, call: turn.Call{Effect: "t1/0/0"}}
	shown := &printer{d: d, attempt: 1}
	shown.print(plugin.StreamStdout, 0, "text")
	shown.close()
	reply := newDeltas(on, false, "s", "t1", 0)
	reply.add(llm.Delta{Kind: events.PartText, Text: "text"})
	reply.tick()
	for range 2 {
		m, err := sub.NextMsg(time.Minute)
		runtest.NoError(t, err)
		var got api.Delta
		runtest.NoError(t, events.DecodePayload(m.Data, &got))
		if off := time.Unix(0, got.Call).Sub(on.Now()).Abs(); off > time.Minute {
			t.Errorf("%+v: got a time that is %v off the servers'", got, off)
		}
	}
}
