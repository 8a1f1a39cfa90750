package external

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestPluginInJavaScript runs a plugin that has no SDK: a NATS client and JSON. Its calls return, and a call outlives
// the node that sent it.
func TestPluginInJavaScript(t *testing.T) {
	t.Parallel()
	path := copyInto(t, modules(t), filepath.Join("testdata", "notes.mjs"))
	for name, hold := range map[string]string{"call_returns": "false", "node_dies_during_call": "true"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, calling("write", `{"text":"milk","hold":`+hold+`}`)...)
			calls := s.sentCalls()
			kill := s.node()
			s.run("js1", exec.CommandContext(s.Ctx, "node", path)) //nolint:gosec // a file of this test
			id := s.begin()
			if hold == "true" {
				s.sent(calls)
				s.node()
				kill()
				s.sent(calls) // of the other node
				s.release()
			}
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, "result", s.CallResult(id, "k"), "noted: milk")
		})
	}
	t.Run("protocol", func(t *testing.T) {
		s := start(t)
		s.node()
		p := s.run("i1", exec.CommandContext(s.Ctx, "node", path)) //nolint:gosec // a file of this test
		c := s.client()
		c.instance = s.idOf("i1")
		registers(t, c)
		for _, garbage := range []string{"{", "null", "7"} {
			for _, verb := range []string{"call", "cancel", "recorded"} {
				c.send(t, verb, []byte(garbage))
			}
		}
		refused(t, c.send(t, "call", aCall("unknown", "other", `{}`)), wire.CodeUnknownTool)
		call := aCall("cancelled", "write", `{"millis":60000}`)
		e := c.send(t, "call", call)
		e.next(func(*wire.Progress) bool { return true })
		c.send(t, "cancel", &wire.Cancel{CallID: call.CallID, GraceMS: 1000})
		runtest.DeepEqual(t, "outcome", e.outcome(), &wire.Outcome{Cancelled: true})
		c.send(t, "recorded", call.CallID)
		c.send(t, "call", call).next(func(p *wire.Progress) bool { return p.Forgotten })
		drains(t, c, p, aCall("last", "write", `{"text":"milk","hold":true}`), func(wire.CallID) { s.release() }, "noted: milk")
	})
}

// registers tests that the instance registers again when nodes have lost its registration.
func registers(t *testing.T, c *client) {
	t.Helper()
	requests, err := c.nc.SubscribeSync(c.prefix + ".plugins.notes.register")
	runtest.WantError(t, "subscribe", err, nil)
	c.send(t, "register", []byte{})
	_, err = requests.NextMsg(time.Minute)
	runtest.WantError(t, "registration after the request", err, nil)
}
