package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
)

// TestLongOpenWithoutServer stops the server with the only replica of the deltas. A bus still opens, appends, marks and
// projects.
func TestLongOpenWithoutServer(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	first := c.Open(t)
	js, err := jetstream.New(first.Conn())
	if err != nil {
		t.Fatal(err)
	}
	deltas, err := js.Stream(t.Context(), "lash-delta")
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := b.Log().Append(ctx, commit("s1", 1), 0); err != nil {
		t.Fatal(err)
	}
	d, err := b.Dirty(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for marked := false; !marked; {
		if err := b.MarkDirty("s1"); err != nil {
			t.Fatal(err)
		}
		if err := d.Fetch(ctx, 1, time.Second, func(m *bus.DirtyMark) { marked = m.Session == "s1"; _ = m.Ack() }); ctx.Err() != nil {
			t.Fatalf("no mark came: %v", err)
		}
	}
}
