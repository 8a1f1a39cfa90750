package follow_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// mortal dials connections that send nothing any more after a number of writes, as a process that dies there.
type mortal struct {
	left atomic.Int64
	die  func()
}

type mortalConn struct {
	net.Conn
	m *mortal
}

func (m *mortal) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &mortalConn{c, m}, err
}

func (c *mortalConn) Write(p []byte) (int, error) {
	if c.m.left.Add(-1) < 0 {
		c.m.die()
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// packedWith lists the stored packs that have a session, listed ones and others.
func packedWith(t *testing.T, b *bus.Bus, id events.SessionID) (n int) {
	t.Helper()
	rows, _ := b.Index()
	for value, err := range rows.Values(t.Context()) {
		runtest.NoError(t, err)
		if !index.IsPack(value) {
			continue
		}
		pack, err := index.DecodePack(value)
		runtest.NoError(t, err)
		if slices.Contains(pack.Sessions(), id) {
			n++
		}
	}
	return n
}

// TestLongPackerDies ends a packer, and an erasure, after each of its writes to the server. Searches find what they found before, and after another
// erasure no pack has the session.
func TestLongPackerDies(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(context.Context, *bus.Bus, events.SessionID) error{
		"packer": func(ctx context.Context, b *bus.Bus, _ events.SessionID) error {
			return follow.PackIndexOf(ctx, b, 2, 1, 3)
		},
		"erasure": func(ctx context.Context, b *bus.Bus, id events.SessionID) error {
			_, err := follow.Erase(ctx, b, id, nil, stone(id), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{Listen: true})
			b, err := bus.Open(t.Context(), bus.Config{URL: server.URL()})
			runtest.NoError(t, err)
			t.Cleanup(b.Close)
			p, deaths := newPacking(b), 0
			for n := int64(0); ; n++ {
				id := events.SessionID(fmt.Sprint("s", n))
				for _, one := range []events.SessionID{id, "a", "b", events.SessionID(fmt.Sprint("more", n))} {
					p.say(t, one, fmt.Sprintf("word%d", n))
					mustProject(t, b, one)
				}
				if name == "erasure" {
					p.pack(t)
				}
				if died := dies(t, server, n, func(ctx context.Context, b *bus.Bus) error { return act(ctx, b, id) }); !died {
					break
				}
				deaths++
				if name == "packer" {
					p.check(t, fmt.Sprintf("word%d", n))
				}
				runtest.NoError(t, act(t.Context(), b, id))
				_, err = follow.Erase(t.Context(), b, id, nil, stone(id), nil)
				runtest.NoError(t, err)
				delete(p.texts, id)
				p.ends[id] = 0
				if left := packedWith(t, b, id); left > 0 {
					t.Errorf("died after %d writes: %d packs have the erased session", n, left)
				}
				p.check(t, "word")
				p.check(t, fmt.Sprintf("word%d", n))
			}
			if deaths < 5 {
				t.Errorf("got %d deaths", deaths)
			}
		})
	}
}

// dies calls act with a bus that dies after n writes, and reports whether it did.
func dies(t *testing.T, server *busembed.Server, n int64, act func(context.Context, *bus.Bus) error) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var died atomic.Bool
	m := &mortal{die: func() { died.Store(true); cancel() }}
	m.left.Store(1 << 40)
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Options: []nats.Option{nats.SetCustomDialer(m)}})
	runtest.NoError(t, err)
	defer func() {
		m.left.Store(1 << 40)
		b.Close()
	}()
	m.left.Store(n)
	if err := act(ctx, b); err != nil && !died.Load() {
		t.Fatal(err)
	}
	return died.Load()
}
