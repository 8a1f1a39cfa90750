package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// client is a plugin that speaks the protocol without the SDK.
type client struct {
	t        *testing.T
	nc       *nats.Conn
	prefix   string
	instance string // that its requests go to
}

func (s *setting) client() *client {
	s.T.Helper()
	nc, err := nats.Connect(s.on.url)
	runtest.NoError(s.T, err)
	s.T.Cleanup(nc.Close)
	return &client{s.T, nc, s.on.prefix, "i1"}
}

// request sends a request as plugin, and returns the answer.
func (c *client) request(plugin, op string, body any) (answer wire.Registered) {
	c.t.Helper()
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	var m *nats.Msg
	err := nats.ErrNoResponders
	for end := time.Now().Add(time.Minute); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(end); { // another server knows the node's subscriptions later
		m, err = c.nc.Request(c.prefix+".plugins."+plugin+"."+op, data, time.Minute)
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	runtest.NoError(c.t, err)
	return answer
}

// requests sends n requests at once, and returns the answers.
func (c *client) requests(n int, plugin, op string, body any) (list []wire.Registered) {
	c.t.Helper()
	data, ok := body.([]byte)
	if !ok {
		var err error
		data, err = json.Marshal(body)
		runtest.WantError(c.t, "request", err, nil)
	}
	inbox := c.nc.NewRespInbox()
	answers, err := c.nc.SubscribeSync(inbox)
	runtest.WantError(c.t, "subscribe", err, nil)
	for range n {
		runtest.WantError(c.t, "publish", c.nc.PublishRequest(c.prefix+".plugins."+plugin+"."+op, inbox, data), nil)
	}
	for range n {
		m, err := answers.NextMsg(time.Minute)
		if err != nil {
			c.t.Fatalf("answer %d of %d: %v", len(list)+1, n, err)
		}
		var answer wire.Registered
		runtest.WantError(c.t, "answer", json.Unmarshal(m.Data, &answer), nil)
		list = append(list, answer)
	}
	runtest.WantError(c.t, "unsubscribe", answers.Unsubscribe(), nil)
	return list
}

func registration(version string, tools ...string) *wire.Registration {
	r := &wire.Registration{Protocol: wire.Version, Instance: "i1", Manifest: wire.Manifest{Version: version}}
	for _, name := range tools {
		r.Manifest.Tools = append(r.Manifest.Tools, wire.Tool{Name: name})
	}
	return r
}

// TestSmokeRegistration registers plugins without the SDK.
func TestSmokeRegistration(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.node()
	c := s.client()
	invalid := registration("1", "a")
	invalid.Manifest.Tools[0].Schema = json.RawMessage(`{"type": 7}`)
	old := registration("1", "a")
	old.Protocol = wire.Version + 1
	large, scoped := registration("1", "a"), registration("1", "a")
	for i := range 10 {
		large.Manifest.Tools = append(large.Manifest.Tools, wire.Tool{Name: fmt.Sprint("t", i), Description: "d", Schema: json.RawMessage(`{"title":"` + strings.Repeat("x", wire.MaxSchemaBytes-20) + `"}`)})
	}
	scoped.Manifest.Scope = "node"
	noObject := func(schema string) *wire.Registration {
		r := registration("1", "a")
		r.Manifest.Tools[0].Schema = json.RawMessage(schema)
		return r
	}
	for _, refused := range []struct {
		name, plugin, op string
		body             any
		code, field      string
	}{
		{"no_operation", "notes", "beat", registration("1"), wire.CodeBadRequest, "op"},
		{"large_registration", "notes", "register", large, wire.CodeTooLarge, "manifest"},
		{"unknown_scope", "notes", "register", scoped, wire.CodeBadRequest, "manifest.scope"},
		{"body_is_no_JSON", "notes", "register", []byte("{"), wire.CodeBadRequest, "body"},
		{"tools_are_a_number", "notes", "register", []byte(`{"protocol":1,"manifest":{"tools":1}}`), wire.CodeBadRequest, "manifest.tools"},
		{"other_protocol", "notes", "register", old, wire.CodeUnsupported, "protocol"},
		{"schema_is_no_schema", "notes", "register", invalid, wire.CodeBadRequest, "manifest.tools[0].schema"},
		{"schema_of_nothing", "notes", "register", noObject(`false`), wire.CodeBadRequest, "manifest.tools[0].schema"},
		{"schema_of_texts", "notes", "register", noObject(`{"type":"string"}`), wire.CodeBadRequest, "manifest.tools[0].schema.type"},
		{"limits_of_the_manifest", "notes", "register", registration(""), wire.CodeBadRequest, "manifest.version"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			answer := c.request(refused.plugin, refused.op, refused.body)
			if answer.Error == nil || answer.Error.Code != refused.code || answer.Error.Field != refused.field || answer.Error.Message == "" {
				t.Errorf("got %+v, want %s of %q", answer.Error, refused.code, refused.field)
			}
			if got := s.first.Status()[0]; got.Version != "" || len(got.Instances) > 0 {
				t.Errorf("after the refusal: got %+v, want nothing registered", got)
			}
		})
	}
}

// TestRegistrationGoesToNodesWithTheName has two nodes with other plugins. A registration goes to the node that has the
// plugin, and one of a plugin that no node has waits.
func TestRegistrationGoesToNodesWithTheName(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.nodeOf([]string{"other"})
	s.nodeOf([]string{"notes", "other"})
	s.nodeOf([]string{"other"})
	c := s.client()
	for range 10 { // two of three would go to a node without the plugin
		if answer := c.request("notes", "register", registration("1", "a")); answer.Error != nil {
			t.Fatalf("registration: got %v, want it accepted", answer.Error)
		}
	}
	_, err := c.nc.Request(c.prefix+".plugins.nobody.register", nil, time.Minute)
	runtest.WantError(t, "a plugin that no node has", err, nats.ErrNoResponders)
}

// TestManifestOutlivesNodes has a node that starts later offer the registered tools, without an instance.
func TestManifestOutlivesNodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	kill := s.node()
	s.client().request("notes", "register", registration("1", "a"))
	kill()
	s.first = nil
	s.node()
	runtest.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a"})
}

// TestManifestLost deletes the table of manifests. A node that starts later has the tools again from an instance that
// lives, and a session calls them.
func TestManifestLost(t *testing.T) {
	t.Parallel()
	s := start(t, calling("write", `{"text":"milk"}`)...)
	kill := s.node()
	s.program("i1")
	kill()
	js, err := jetstream.New(s.client().nc)
	runtest.WantError(t, "jetstream", err, nil)
	runtest.WantError(t, "delete the table", js.DeleteKeyValue(s.Ctx, s.on.prefix+"-plugins"), nil)
	s.first = nil
	s.node()
	s.AwaitPolling("the tools", func() bool { return len(s.first.Status()[0].Tools) > 2 })
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k"), "noted: milk")
}
