package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/servicetest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
)

// lossyConn is a connection that loses every other response of its process.
type clientsLossyConn struct {
	net.Conn
	mu      sync.Mutex
	partial []byte // of a message that is not whole yet
	lost    int
	lose    bool
}

func (m *clientsLossyConn) InProcessConn() (net.Conn, error) { return m, nil }

// Write implements [net.Conn]: it forwards everything except lost responses.
func (m *clientsLossyConn) Write(data []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partial = append(m.partial, data...)
	for {
		length, answer := message(m.partial)
		if length == 0 {
			return len(data), nil
		}
		if answer {
			m.lose = !m.lose
		}
		if answer && m.lose {
			m.lost++
		} else if _, err := m.Conn.Write(m.partial[:length]); err != nil {
			return 0, err
		}
		m.partial = m.partial[length:]
	}
}

// message is the size of the first protocol message of a client's data, 0 while it is incomplete, and whether it
// is a response.
func message(data []byte) (size int, answer bool) {
	end := bytes.Index(data, []byte("\r\n"))
	if end < 0 {
		return 0, false
	}
	size = end + 2
	words := bytes.Fields(data[:end])
	if len(words) < 3 || string(words[0]) != "PUB" && string(words[0]) != "HPUB" {
		return size, false
	}
	n, _ := strconv.Atoi(string(words[len(words)-1]))
	if size += n + 2; size > len(data) {
		return 0, false
	}
	return size, string(words[0]) == "PUB" && bytes.HasPrefix(words[1], []byte("_INBOX."))
}

// openLossy opens a bus that loses every other response.
func clientsOpenLossy(t *testing.T, server *busembed.Server) (*bus.Bus, *clientsLossyConn) {
	t.Helper()
	var opts nats.Options
	runtest.NoError(t, server.InProcess()(&opts))
	inner, err := opts.InProcessServer.InProcessConn()
	runtest.NoError(t, err)
	m := &clientsLossyConn{Conn: inner}
	b, err := bus.Open(harness.Context(t), bustest.WithKeys(t, bus.Config{Options: []nats.Option{nats.InProcessServer(m)}}))
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b, m
}

// lossyClient is a client whose every call loses its first response.
type lossyClient struct {
	*client.Client
	t *testing.T
}

// InvokeAction is never asked for twice by the client: it says that it does not know.
func (u lossyClient) InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error) {
	if _, err := u.Client.InvokeAction(ctx, id, name, args); !errors.Is(err, events.ErrOutcomeUnknown) {
		u.t.Errorf("action %s whose answer was lost: got %v, want %v", name, err, events.ErrOutcomeUnknown)
	}
	for { // a slow machine's answer may come after the client's short wait, too
		got, err := u.Client.InvokeAction(ctx, id, name, args)
		if !errors.Is(err, events.ErrOutcomeUnknown) || ctx.Err() != nil {
			return got, err
		}
	}
}

// TestServiceLostAnswers runs the suite on a client whose every request is done, and its first response lost: a
// repeat has the same response.
func TestServiceLostAnswers(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	t.Cleanup(func() {
		if lost.Load() == 0 {
			t.Error("lost answers: got none")
		}
	})
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		server := bustest.Server(t, busembed.Config{})
		on, wire := clientsOpenLossy(t, server)
		serving(t, on)
		c, err := client.New(client.Config{
			Bus: bustest.Open(t, server), Actor: "ide", Silence: 200 * time.Millisecond, Logger: zaptest.NewLogger(t),
		})
		runtest.NoError(t, err)
		return servicetest.Started{Service: lossyClient{c, t}, Finish: func() {
			wire.mu.Lock()
			defer wire.mu.Unlock()
			lost.Add(int64(wire.lost))
		}}
	})
}

var _ api.Service = lossyClient{}
