package follow_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// wire is a connection that breaks at its k-th write: before it, or after it
// when the request arrives and its answer does not.
type wire struct {
	net.Conn
	mu   sync.Mutex
	left int // writes until it breaks; 0 never does
	late bool
	cut  func()
}

var errCut = errors.New("the wire was cut")

func (w *wire) arm(left int, late bool, cut func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.late, w.cut = left, late, cut
}

func (w *wire) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return w.Conn.Write(data)
	}
	if w.left--; w.left > 0 {
		return w.Conn.Write(data)
	}
	w.left = 1 // every write from here on
	w.cut()
	if w.late {
		w.late = false
		_, _ = w.Conn.Write(data)
	}
	_ = w.Close()
	return 0, errCut
}

// InProcessConn implements [nats.InProcessConnProvider]: there is one connection and never another.
func (w *wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left > 0 {
		return nil, errCut
	}
	return w, nil
}

// openWire opens a bus whose wire can be cut.
func openWire(t *testing.T, server *busembed.Server) (*bus.Bus, *wire) {
	t.Helper()
	var opts nats.Options
	if err := server.InProcess()(&opts); err != nil {
		t.Fatal(err)
	}
	inner, err := opts.InProcessServer.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Conn: inner}
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{nats.InProcessServer(w), silent}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, w
}

// TestKilledAnywhere kills a projector at each of its requests, before it and
// after it; another one finishes and everything is as if nothing had been.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for _, late := range []bool{false, true} {
		name := "before_it_arrives"
		if late {
			name = "after_it_arrives"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k++ {
				id := events.SessionID(fmt.Sprintf("%s-%d", name, k))
				grow(t, b, id, 0, 40, 3)
				if k%2 == 0 { // there are rows of an older sequence
					mustProject(t, b, id)
					grow(t, b, id, 40, 80, 3)
				}
				if killedAt(t, server, id, k, late) {
					if k < 10 {
						t.Errorf("a projection took %d requests, want more", k-1)
					}
					return
				}
				if k%3 == 0 {
					last := int(refold(t, b, id).Seq)
					grow(t, b, id, last, last+2, 1)
				}
				mustProject(t, b, id)
				rows(t, b, id)
				same(t, b, id)
				if stored, err := follow.Stored(t.Context(), b, id); err != nil || stored == nil {
					t.Errorf("killed at request %d: got snapshot %v, %v, want one", k, stored, err)
				}
			}
		})
	}
}

// killedAt projects until the wire is cut at the k-th write. It reports whether it was done before.
func killedAt(t *testing.T, server *busembed.Server, id events.SessionID, k int, late bool) (finished bool) {
	t.Helper()
	victim, w := openWire(t, server)
	defer victim.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.arm(k, late, cancel)
	err := project(ctx, victim, id)
	if err == nil && ctx.Err() == nil {
		return true
	}
	if err == nil {
		t.Errorf("killed at request %d: got no error", k) // the last request is answered before it returns
	}
	return false
}
