package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongOpenWithoutServer stops the server with the only replica of the deltas. A bus still opens, appends, marks and
// projects.
func TestLongOpenWithoutServer(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	first := c.Open(t)
	js, err := jetstream.New(first.Conn())
	runtest.NoError(t, err)
	deltas, err := js.Stream(t.Context(), "lash-delta")
	runtest.NoError(t, err)
	holder := deltas.CachedInfo().Cluster.Leader
	for i, s := range c.Servers {
		if s.Name() == holder {
			s.Stop()
			c.Servers[i] = nil
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := bus.Open(ctx, bus.Config{URL: c.URL, Replicas: 3, Timeout: time.Second})
	if err != nil {
		t.Fatalf("open without %s: %v", holder, err)
	}
	defer b.Close()
	_, err = b.Log().Append(ctx, commit("s1", 1), 0)
	runtest.NoError(t, err)
	d, err := b.Dirty(ctx)
	runtest.NoError(t, err)
	for marked := false; !marked; {
		runtest.NoError(t, b.MarkDirty("s1"))
		if err := d.Fetch(ctx, 1, time.Second, func(m *bus.DirtyMark) { marked = m.Session == "s1"; _ = m.Ack() }); ctx.Err() != nil {
			t.Fatalf("no mark came: %v", err)
		}
	}
}
