package bus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestRequestsOfOnePluginDoNotDelayAnother has a handler that does not return for one plugin. Its requests take a
// bounded number of goroutines, and another plugin's request is answered.
func TestRequestsOfOnePluginDoNotDelayAnother(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	nc, err := nats.Connect(server.URL())
	runtest.NoError(t, err)
	defer nc.Close()
	release := make(chan struct{})
	stop, err := b.ServePlugins([]string{"good", "bad"}, nil, func(plugin, _ string, _ []byte) []byte {
		if plugin == "bad" {
			<-release
		}
		return []byte(plugin)
	})
	runtest.NoError(t, err)
	defer stop()
	defer close(release)
	if err := b.Conn().Flush(); err != nil { // the server has the subscriptions
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 5000 {
		runtest.NoError(t, nc.PublishRequest("lash.plugins.bad.register", fmt.Sprint(nats.InboxPrefix, "none.", i), []byte("x")))
	}
	m, err := nc.Request("lash.plugins.good.register", nil, time.Minute)
	if err != nil || string(m.Data) != "good" {
		t.Fatalf("the other plugin: got %v, %v, want an answer", m, err)
	}
	if got := runtime.NumGoroutine() - before; got > 1000 {
		t.Errorf("goroutines: %d more, want at most 512 of the requests and those of other tests", got)
	}
}

// pluginUser is a connection of the instances of the plugins good and bad. The instance i1 of good answers. That of bad floods the
// reply subject of each call, and signs of life, with 300 messages of half a MiB each.
func pluginUser(t *testing.T, server *busembed.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(server.URL())
	runtest.NoError(t, err)
	t.Cleanup(nc.Close)
	flood := make([]byte, floodSize)
	for plugin, answer := range map[string]func(*nats.Msg){
		"good": func(m *nats.Msg) { _ = m.Respond([]byte("fine")) },
		"bad": func(m *nats.Msg) {
			for n := range floodMessages {
				_ = nc.Publish(m.Reply, flood)
				_ = nc.Publish(fmt.Sprint("lash.plugin-live.bad.i", n%8), flood)
			}
		},
	} {
		_, err = nc.Subscribe("lash.plugin."+plugin+".i1.call", answer)
		runtest.NoError(t, err)
	}
	runtest.NoError(t, nc.Flush())
	return nc
}

const floodMessages, floodSize = 300, 1 << 19

// TestLongFloodOfAnswersHasItsConnection floods the reply subject of a call, and signs of life, of one plugin. What arrives does so over the
// connection of that plugin: the one of the sessions, and that of another plugin, get nothing of it, and requests over them are answered.
// So it is where the connection was refused before, was cut, or was closed for good.
func TestLongFloodOfAnswersHasItsConnection(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*testing.T, *bus.Bus, *limitedConns){
		"first": func(*testing.T, *bus.Bus, *limitedConns) {},
		"refused_once": func(t *testing.T, b *bus.Bus, l *limitedConns) {
			if conn := b.PluginConn("bad"); conn != b.Conn() {
				t.Error("got another connection, want the primary one while others are refused")
			}
			l.refuse(false)
		},
		"cut": func(t *testing.T, _ *bus.Bus, l *limitedConns) {
			made, _ := l.count()
			for i := 1; i < made; i++ { // all but the primary one
				l.cut(i)
			}
		},
		"closed_for_good": func(_ *testing.T, b *bus.Bus, _ *limitedConns) { b.PluginConn("bad").Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{Listen: true})
			b, l := openLimited(t, server, 100)
			b.SetLinkRetry(0)
			nc := pluginUser(t, server)
			l.refuse(name == "refused_once")
			var signs atomic.Int64
			stop, err := b.PluginSigns([]string{"good", "bad"}, func(_, _ string, data []byte) {
				if string(data) == "sign" {
					signs.Add(1)
				}
			})
			runtest.NoError(t, err)
			defer stop()
			before(t, b, l)
			awaitOwn(t, b, nc, &signs)
			floodOne(t, b)
			b.Close()
			if conn := b.PluginConn("bad"); !conn.IsClosed() {
				t.Error("the connection of a plugin is open after the close of the bus")
			}
		})
	}
}

// awaitOwn waits until a sign of life of the plugin bad arrives over a connection of its own alone.
func awaitOwn(t *testing.T, b *bus.Bus, nc *nats.Conn, signs *atomic.Int64) {
	t.Helper()
	bustest.Eventually(t, "a sign of life over a connection of the plugin", func() bool {
		own := b.PluginConn("bad")
		got, over, primary := signs.Load(), own.Stats().InMsgs, b.Conn().Stats().InMsgs
		runtest.NoError(t, nc.Publish("lash.plugin-live.bad.i1", []byte("sign")))
		runtest.NoError(t, errors.Join(nc.Flush(), b.Conn().Flush()))
		err := own.FlushTimeout(time.Minute)
		return err == nil && own != b.Conn() && signs.Load() > got && own.Stats().InMsgs > over && b.Conn().Stats().InMsgs == primary
	})
}

// floodOne floods the plugin bad, and calls the other one meanwhile.
func floodOne(t *testing.T, b *bus.Bus) {
	t.Helper()
	before := b.Conn().Stats().InBytes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	received := 0
	err := b.AskInstance(ctx, "bad", "i1", "call", nil, func(data []byte) bool {
		received += len(data)
		return received >= floodMessages/4*floodSize
	})
	if err != nil {
		t.Fatalf("flood: got %v after %d bytes", err, received)
	}
	got, err := b.RequestInstance(ctx, "good", "i1", "call", nil)
	if err != nil || string(got) != "fine" {
		t.Errorf("another plugin: got %q, %v, want an answer", got, err)
	}
	for name, n := range map[string]uint64{"of the sessions": b.Conn().Stats().InBytes - before, "of another plugin": b.PluginConn("good").Stats().InBytes} {
		if n >= floodSize {
			t.Errorf("connection %s: got %d bytes, want none of the flood", name, n)
		}
	}
}

// TestAwaitingRequestsDelayNone has more requests of a plugin wait before they are handled than are handled at once. Another one of
// the same plugin is answered, and so are they at the end of their wait.
func TestAwaitingRequestsDelayNone(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	nc, err := nats.Connect(server.URL())
	runtest.NoError(t, err)
	defer nc.Close()
	const waiting = 200
	awaits, release := make(chan struct{}, waiting), make(chan struct{})
	stop, err := b.ServePlugins([]string{"notes"}, func(_, _ string, data []byte) {
		if string(data) == "waits" {
			awaits <- struct{}{}
			<-release
		}
	}, func(_, _ string, data []byte) []byte { return data })
	runtest.NoError(t, err)
	defer stop()
	bustest.Eventually(t, "the first answer", func() bool { // the server has the subscriptions
		_, err := nc.Request("lash.plugins.notes.register", []byte("now"), time.Second)
		return err == nil
	})
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	runtest.NoError(t, err)
	for range waiting {
		runtest.NoError(t, nc.PublishRequest("lash.plugins.notes.register", inbox, []byte("waits")))
	}
	for range waiting {
		bustest.Receive(t, "a request that waits", awaits)
	}
	m, err := nc.Request("lash.plugins.notes.register", []byte("now"), time.Minute)
	if err != nil || string(m.Data) != "now" {
		t.Errorf("beside those that wait: got %v, %v, want an answer", m, err)
	}
	close(release)
	for range waiting {
		if m, err := answers.NextMsg(time.Minute); err != nil || string(m.Data) != "waits" {
			t.Fatalf("after the wait: got %v, %v, want an answer", m, err)
		}
	}
}
