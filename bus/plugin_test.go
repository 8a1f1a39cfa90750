package bus_test

import (
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
