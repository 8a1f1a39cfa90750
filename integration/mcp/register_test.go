package mcp

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestRefusedInstanceIsRegisteredAgain has nodes lose the manifest of a server, and refuse the registration that the
// instance then repeats: it ends by itself. The source registers the tools again, as another instance, although the server
// has not changed.
func TestRefusedInstanceIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	conn := bustest.Open(t, s.Server).Conn()
	var mu sync.Mutex
	var instances []string // of the registrations, in order
	refuse := func(n int) bool { return n == 2 }
	sub, err := conn.Subscribe("lash.plugins.srv.register", func(m *nats.Msg) { // a node
		var r wire.Registration
		if json.Unmarshal(m.Data, &r) != nil {
			return
		}
		mu.Lock()
		instances = append(instances, r.Instance)
		answer := wire.Registered{Hash: r.Manifest.Hash()}
		if refuse(len(instances)) {
			answer = wire.Registered{Error: &wire.Error{Code: wire.CodeConflict, Message: "replaced"}}
		}
		mu.Unlock()
		data, err := json.Marshal(&answer)
		if err == nil {
			_ = m.Respond(data)
		}
	})
	harness.WantError(t, "subscribe", err, nil)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	harness.WantError(t, "flush", conn.Flush(), nil)
	registered := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), instances...)
	}
	source := s.beginSource(bustest.Open(t, s.Server).Conn(), server)
	s.Wait("the first registration", source.Ready())
	first := registered()[0]
	harness.WantError(t, "lost manifest", conn.Publish("lash.plugin.srv."+first+".register", nil), nil)
	s.AwaitPolling("the third registration", func() bool { return len(registered()) >= 3 })
	list := registered()
	if list[1] != first || list[2] == first {
		t.Errorf("instances: got %v, want the first one twice, and then another one", list)
	}
	harness.Equal(t, "processes of the server", len(s.pidsOf(server)), 1)
}
