package bus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestRequestsOfOnePluginDoNotDelayAnother has a handler that does not return for one plugin. Its requests take a
// bounded number of goroutines, and another plugin's request is answered.
func TestRequestsOfOnePluginDoNotDelayAnother(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	release := make(chan struct{})
	stop, err := b.ServePlugins([]string{"good", "bad"}, func(plugin, _ string, _ []byte) []byte {
		if plugin == "bad" {
			<-release
		}
		return []byte(plugin)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	defer close(release)
	if err := b.Conn().Flush(); err != nil { // the server has the subscriptions
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 5000 {
		if err := nc.PublishRequest("lash.plugins.bad.register", fmt.Sprint(nats.InboxPrefix, "none.", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	m, err := nc.Request("lash.plugins.good.register", nil, 10*time.Second)
	if err != nil || string(m.Data) != "good" {
		t.Fatalf("the other plugin: got %v, %v, want an answer", m, err)
	}
	if got := runtime.NumGoroutine() - before; got > 1000 {
		t.Errorf("goroutines: %d more, want at most 512 of the requests and those of other tests", got)
	}
}

// TestFloodOfAnswersHasItsConnection floods the reply subject of a call, and signs of life, of one plugin. What arrives does so over the
// connection of that plugin: the one of the sessions, and that of another plugin, get nothing of it, and requests over them are answered.
func TestFloodOfAnswersHasItsConnection(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const messages, size = 300, 1 << 19
	flood := make([]byte, size)
	for plugin, answer := range map[string]func(*nats.Msg){
		"good": func(m *nats.Msg) { _ = m.Respond([]byte("fine")) },
		"bad": func(m *nats.Msg) {
			for n := range messages {
				_ = nc.Publish(m.Reply, flood)
				_ = nc.Publish(fmt.Sprint("lash.plugin-live.bad.i", n%8), flood)
			}
		},
	} {
		if _, err := nc.Subscribe("lash.plugin."+plugin+".i1.call", answer); err != nil {
			t.Fatal(err)
		}
	}
	stop, err := b.PluginSigns([]string{"good", "bad"}, func(string, string, []byte) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := errors.Join(nc.Flush(), b.PluginConn("bad").Flush()); err != nil {
		t.Fatal(err)
	}
	before := b.Conn().Stats().InBytes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	received := 0
	err = b.AskInstance(ctx, "bad", "i1", "call", nil, func(data []byte) bool {
		received += len(data)
		return received >= messages/4*size
	})
	if err != nil {
		t.Fatalf("flood: got %v after %d bytes", err, received)
	}
	got, err := b.RequestInstance(ctx, "good", "i1", "call", nil)
	if err != nil || string(got) != "fine" {
		t.Errorf("another plugin: got %q, %v, want an answer", got, err)
	}
	for name, n := range map[string]uint64{"of the sessions": b.Conn().Stats().InBytes - before, "of another plugin": b.PluginConn("good").Stats().InBytes} {
		if n >= size {
			t.Errorf("connection %s: got %d bytes, want none of the flood", name, n)
		}
	}
	b.Close()
	if conn := b.PluginConn("bad"); !conn.IsClosed() {
		t.Error("the connection of a plugin is open after the close of the bus")
	}
}
