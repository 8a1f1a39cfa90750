package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
)

// cutter dials one connection, and closes it in place of its nth read or write after arm. It dials no other.
type cutter struct {
	n      int64
	armed  atomic.Bool
	seen   atomic.Int64
	dialed atomic.Bool
	cut    chan struct{} // closed with the connection
	once   sync.Once
}

var errCut = errors.New("cut")

// Dial implements [nats.CustomDialer].
func (c *cutter) Dial(network, address string) (net.Conn, error) {
	if c.dialed.Swap(true) {
		return nil, errCut
	}
	conn, err := net.Dial(network, address)
	return &cutConn{conn, c}, err
}

func (c *cutter) cutNow() bool {
	select {
	case <-c.cut:
		return true
	default:
		return false
	}
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Write(data []byte) (int, error) {
	if c.ends() {
		return 0, errCut
	}
	return c.Conn.Write(data)
}

func (c *cutConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if c.ends() {
		return 0, errCut
	}
	return n, err
}

func (c *cutConn) ends() bool {
	if !c.c.armed.Load() || c.c.seen.Add(1) < c.c.n {
		return false
	}
	c.c.once.Do(func() {
		_ = c.Close()
		close(c.c.cut)
	})
	return true
}

// TestNodeCutAtEachMessage cuts the connection of a node before each thing that it sends and receives from the start of a
// turn to its end, and stops the node. The turn has a call of an external tool that must not run twice, and hooks of the
// plugin before and after it. The next node ends the turn, and the call has run once.
func TestNodeCutAtEachMessage(t *testing.T) {
	t.Parallel()
	var cuts atomic.Int64
	t.Cleanup(func() {
		if n := cuts.Load(); n < 20 {
			t.Errorf("%d of the nodes were cut, want at least 20", n)
		}
	})
	for n := range int64(36) {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			t.Parallel()
			s := start(t, hookedOnce(8)...)
			c := &cutter{n: n + 1, cut: make(chan struct{})}
			on, err := bus.Open(s.Ctx, bus.Config{URL: s.on.url, Options: []nats.Option{nats.SetCustomDialer(c)}})
			runtest.WantError(t, "open", err, nil)
			t.Cleanup(on.Close)
			kill := s.nodeOn(on)
			var runs atomic.Int64
			s.instance(remote.Config{Plugin: counted(&runs)})
			s.Host = s.OtherHost()
			id := s.Open(api.CreateRequest{})
			c.armed.Store(true)
			s.StartTurn(id, "t1", harness.Text("go"))
			s.AwaitPolling("cut or end", func() bool {
				record, err := s.StateOf(id).Record("t1")
				runtest.WantError(t, "record", err, nil)
				return c.cutNow() || record != nil
			})
			if c.cutNow() {
				cuts.Add(1)
				kill()
				s.node()
			}
			c.armed.Store(false)
			runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", s.CallResult(id, "k"), "done once")
			runtest.Equal(t, "runs", runs.Load(), 1)
		})
	}
}

// counted is the plugin notes with the tool own, whose runs it counts, and hooks around it.
func counted(runs *atomic.Int64) plugin.Factory {
	return plugin.Func("notes", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return nil, nil })
		plugin.AddTool(r, plugin.Tool{Name: "own"}, func(context.Context, plugin.Call, struct {
			A int `json:"a"`
		},
		) (string, error) {
			runs.Add(1)
			return "done once", nil
		})
		return nil
	})
}

// TestInstanceCutAtEachMessage cuts an instance for ever before each thing that it sends and receives in the same turn,
// and another instance comes. The turn ends. The call has run once, or not at all where its result says so; where it may
// have run, the history says that its outcome is lost.
func TestInstanceCutAtEachMessage(t *testing.T) {
	t.Parallel()
	var cuts, lost atomic.Int64
	t.Cleanup(func() {
		if cuts.Load() < 5 || lost.Load() == 0 {
			t.Errorf("%d of the instances were cut, and %d calls lost, want at least 5 and 1", cuts.Load(), lost.Load())
		}
	})
	for n := range int64(12) {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			t.Parallel()
			s := start(t, hookedOnce(8)...)
			s.node()
			c := &cutter{n: n + 1, cut: make(chan struct{})}
			var runs atomic.Int64
			begin := func(options ...nats.Option) {
				conn, err := nats.Connect(s.on.url, options...)
				runtest.WantError(t, "connect", err, nil)
				i, err := remote.Start(s.Ctx, remote.Config{Conn: conn, Plugin: counted(&runs), Version: "1"})
				runtest.WantError(t, "start", err, nil)
				t.Cleanup(func() { conn.Close(); _ = i.Stop(context.Background()) }) // it may be cut
			}
			begin(nats.SetCustomDialer(c))
			id := s.Open(api.CreateRequest{})
			s.alive(1)
			c.armed.Store(true)
			s.StartTurn(id, "t1", harness.Text("go"))
			s.AwaitPolling("cut or end", func() bool {
				record, err := s.StateOf(id).Record("t1")
				runtest.WantError(t, "record", err, nil)
				return c.cutNow() || record != nil
			})
			if c.cutNow() {
				cuts.Add(1)
				begin() // one that lives before may get the call in place of the first
			}
			runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
			switch r, ran := s.theResult(id, 0), runs.Load(); {
			case r.Outcome == events.OutcomeSuccess && ran == 1:
			case r.Outcome == events.OutcomeLost && ran <= 1:
				lost.Add(1)
			case r.Class == plugin.ClassUnavailable && ran == 0:
			default:
				t.Errorf("got %+v after %d runs", r, ran)
			}
		})
	}
}
