package external

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/harness"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// client is a plugin that speaks the protocol without the SDK.
type client struct {
	t      *testing.T
	nc     *nats.Conn
	prefix string
}

func (s *setting) client() *client {
	s.T.Helper()
	nc, err := nats.Connect(s.on.url)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(nc.Close)
	return &client{s.T, nc, s.on.prefix}
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
	m, err := c.nc.Request(c.prefix+".plugins."+plugin+"."+op, data, 10*time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

func registration(version string, tools ...string) *wire.Registration {
	r := &wire.Registration{Protocol: wire.Version, Instance: "i1", Manifest: wire.Manifest{Version: version}}
	for _, name := range tools {
		r.Manifest.Tools = append(r.Manifest.Tools, wire.Tool{Name: name})
	}
	return r
}

// TestRegistration registers plugins without the SDK.
func TestRegistration(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.node()
	c := s.client()
	invalid := registration("1", "a")
	invalid.Manifest.Tools[0].Schema = json.RawMessage(`{"type": 7}`)
	old := registration("1", "a")
	old.Protocol = wire.Version + 1
	for _, refused := range []struct {
		name, plugin, op string
		body             any
		code, field      string
	}{
		{"T01_first_request_must_register", "notes", "beat", registration("1"), wire.CodeBadRequest, "op"},
		{"body_is_no_JSON", "notes", "register", []byte("{"), wire.CodeBadRequest, ""},
		{"other_protocol", "notes", "register", old, wire.CodeUnsupported, "protocol"},
		{"plugin_that_no_node_has", "other", "register", registration("1"), wire.CodeBadRequest, "plugin"},
		{"schema_is_no_schema", "notes", "register", invalid, wire.CodeBadRequest, "manifest.tools[0].schema"},
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
	t.Run("T02_a_valid_manifest_is_stored", func(t *testing.T) {
		r := registration("1", "a", "b")
		if answer := c.request("notes", "register", r); answer.Error != nil || answer.Hash != r.Manifest.Hash() {
			t.Fatalf("got %+v, want it accepted", answer)
		}
		harness.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a", "b"})
	})
	t.Run("T03_same_version_with_other_tools_is_refused", func(t *testing.T) {
		answer := c.request("notes", "register", registration("1", "c"))
		if answer.Error == nil || answer.Error.Code != wire.CodeConflict {
			t.Fatalf("got %+v, want a conflict", answer)
		}
		harness.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a", "b"})
	})
	t.Run("T05_two_instances_at_once_store_one_row", func(t *testing.T) {
		before, err := s.Bus.Manifests().Get(s.Ctx, "notes")
		harness.WantError(t, "manifest", err, nil)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if answer := c.request("notes", "register", registration("2", "d")); answer.Error != nil {
					t.Errorf("got %+v, want it accepted", answer)
				}
			})
		}
		all.Wait()
		after, err := s.Bus.Manifests().Get(s.Ctx, "notes")
		harness.WantError(t, "manifest", err, nil)
		if after.Revision != before.Revision+1 {
			t.Errorf("revisions: got %d, want one more than %d", after.Revision, before.Revision)
		}
	})
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
	harness.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a"})
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
	harness.WantError(t, "jetstream", err, nil)
	harness.WantError(t, "delete the table", js.DeleteKeyValue(s.Ctx, s.on.prefix+"-plugins"), nil)
	s.first = nil
	s.node()
	s.AwaitPolling("the tools", func() bool { return len(s.first.Status()[0].Tools) > 2 })
	id := s.begin()
	s.AwaitTurn(id, "t1")
	if got := s.CallResult(id, "k"); got != "noted: milk" {
		t.Errorf("result: got %q, want that of the tool", got)
	}
}

// TestToolNameOfAnotherPlugin registers tools whose names are taken: by another external plugin, which refuses the
// registration and names both, and by a plugin of the node, whose tool stays and whose sessions run.
func TestToolNameOfAnotherPlugin(t *testing.T) {
	t.Parallel()
	s := start(t, calling("own", `{}`)...)
	on := s.on.open(t)
	p, err := external.New(external.Config{Bus: on, Plugins: []external.Plugin{{Name: "notes"}, {Name: "other"}}})
	harness.WantError(t, "plugins", err, nil)
	harness.WantError(t, "start", p.Start(s.Ctx), nil)
	t.Cleanup(p.Stop)
	own := plugin.OfTool(plugin.Tool{Name: "own", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "of the node", nil })
	n, _ := s.StartNodeOn(on, append([]plugin.Factory{own}, p.Factories()...)...)
	s.Host = n.Host()
	c := s.client()
	if answer := c.request("notes", "register", registration("1", "a", "own")); answer.Error != nil {
		t.Fatalf("got %+v, want it accepted", answer)
	}
	answer := c.request("other", "register", registration("1", "b", "a"))
	if answer.Error == nil || answer.Error.Code != wire.CodeConflict || answer.Error.Field != "manifest.tools[1].name" ||
		!strings.Contains(answer.Error.Message, "notes") || !strings.Contains(answer.Error.Message, "other") {
		t.Errorf("T04_tool_of_another_plugin: got %+v, want a conflict that names both", answer.Error)
	}
	if got := p.Status()[1].Tools; len(got) > 0 {
		t.Errorf("tools of the refused plugin: got %v, want none", got)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
	if got := s.CallResult(id, "k"); got != "of the node" {
		t.Errorf("result: got %q, want that of the node's tool", got)
	}
}
