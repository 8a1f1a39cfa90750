package external

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

var registrationCases = []serviceCase{
	{"T01_first_request_must_register", firstRequestMustRegister},
	{"T02_valid_manifest_is_stored_once", validManifestIsStoredOnce},
	{"T03_version_with_other_contents_is_refused", versionWithOtherContents},
	{"T04_tool_name_of_another_plugin_is_refused", toolNameOfAnotherPlugin},
	{"T05_instances_that_register_at_once_store_one_manifest", registerAtOnce},
	{"T06_turn_keeps_its_manifest", turnKeepsItsManifest},
	{"T07_tools_without_an_instance_stay_listed", toolsWithoutInstance},
	{"T10_order_of_tools_is_the_same", orderOfTools},
}

func firstRequestMustRegister(t *testing.T, on place) {
	s := on.start(t)
	s.node()
	answer := s.client().request("notes", "beat", registration("1"))
	if answer.Error == nil || answer.Error.Code != wire.CodeBadRequest {
		t.Errorf("answer: got %+v, want %s", answer, wire.CodeBadRequest)
	}
	runtest.DeepEqual(t, "instances", len(s.first.Status()[0].Instances), 0)
	runtest.DeepEqual(t, "version", s.first.Status()[0].Version, "")
}

// accept registers a manifest.
func (c *client) accept(r *wire.Registration) {
	c.t.Helper()
	if answer := c.request("notes", "register", r); answer.Error != nil || answer.Hash != r.Manifest.Hash() {
		c.t.Fatalf("register version %s: got %+v, want it accepted", r.Manifest.Version, answer)
	}
}

// refuse registers a manifest that conflicts, with words of the message.
func (c *client) refuse(r *wire.Registration, words string) {
	c.t.Helper()
	if answer := c.request("notes", "register", r); answer.Error == nil || answer.Error.Code != wire.CodeConflict || !strings.Contains(answer.Error.Message, words) {
		c.t.Errorf("register version %s: got %+v, want a conflict with %q", r.Manifest.Version, answer.Error, words)
	}
}

// offeredTools are the tools that the model got with a request.
func (s *setting) offeredTools(request int) (names []string) {
	s.T.Helper()
	for _, tool := range s.Model.Requests()[request].Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// The row of the manifest has one revision, however often the instance registers. The next turn offers its tools.
func validManifestIsStoredOnce(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Text("done")))
	s.node()
	c := s.client()
	c.accept(registration("1", "a", "b"))
	c.accept(registration("1", "a", "b"))
	row, err := s.Bus.Manifests().Get(s.Ctx, "notes")
	runtest.WantError(t, "row", err, nil)
	runtest.DeepEqual(t, "revision", row.Revision, uint64(1))
	s.AwaitTurn(s.begin(), "t1")
	runtest.DeepEqual(t, "tools", s.offeredTools(0), []string{"a", "b"})
}

func versionWithOtherContents(t *testing.T, on place) {
	s := on.start(t)
	s.node()
	c := s.client()
	c.accept(registration("1", "a"))
	c.refuse(registration("1", "c"), "other contents")
	runtest.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a"})
}

// toolNameOfAnotherPlugin registers tools whose names are taken: by another external plugin, which refuses the
// registration and names both, and by a plugin of the node, whose tool stays and whose sessions run.
func toolNameOfAnotherPlugin(t *testing.T, on place) {
	s := on.start(t, calling("own", `{}`)...)
	b := s.on.open(t)
	p, err := external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "notes"}, {Name: "other"}}})
	runtest.WantError(t, "plugins", err, nil)
	runtest.WantError(t, "start", p.Start(s.Ctx), nil)
	t.Cleanup(p.Stop)
	own := plugin.OfTool(plugin.Tool{Name: "own", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "of the node", nil })
	n, _ := s.StartNodeOn(b, append([]plugin.Factory{own}, p.Factories()...)...)
	s.Host = n.Host()
	c := s.client()
	if answer := c.request("notes", "register", registration("1", "a", "own")); answer.Error != nil {
		t.Fatalf("got %+v, want it accepted", answer)
	}
	answer := c.request("other", "register", registration("1", "b", "a"))
	if answer.Error == nil || answer.Error.Code != wire.CodeConflict || answer.Error.Field != "manifest.tools[1].name" ||
		!strings.Contains(answer.Error.Message, "notes") || !strings.Contains(answer.Error.Message, "other") {
		t.Errorf("got %+v, want a conflict that names both", answer.Error)
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

// Both instances are known by their signs of life.
func registerAtOnce(t *testing.T, on place) {
	s := on.start(t)
	s.node()
	c := s.client()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if answer := c.request("notes", "register", registration("2", "d")); answer.Error != nil {
				t.Errorf("got %+v, want it accepted", answer)
			}
		})
	}
	all.Wait()
	row, err := s.Bus.Manifests().Get(s.Ctx, "notes")
	runtest.WantError(t, "row", err, nil)
	runtest.DeepEqual(t, "revision", row.Revision, uint64(1))
	r := registration("2", "d")
	for _, id := range []string{"i1", "i2"} {
		c.sign(id, r.Manifest.Hash())
	}
	s.alive(2)
}

// sign sends a sign of life of an instance.
func (c *client) sign(instance, hash string) {
	c.t.Helper()
	runtest.WantError(c.t, "sign", c.nc.Publish(c.prefix+".plugin-live.notes."+instance, fmt.Appendf(nil, `{"hash":%q}`, hash)), nil)
}

// notesTools are the tools of the plugin notes.
func notesTools(t *testing.T) (names []string) {
	t.Helper()
	d, err := plugin.Declare(notes(""))
	runtest.WantError(t, "declare", err, nil)
	for _, entry := range d.Tools.Entries() {
		names = append(names, entry.Name)
	}
	return names
}

// toolsOfTurn are the tools that the history has at the end of a turn.
func (s *setting) toolsOfTurn(id events.SessionID, turn events.TurnID) (names []string) {
	s.T.Helper()
	for _, ev := range s.History(id) {
		switch p := ev.Payload.(type) {
		case *events.ToolStateApplied:
			names = nil
			for _, tool := range p.Tools {
				names = append(names, tool.Name)
			}
		case *events.TurnCompleted:
			if ev.Turn == turn {
				return names
			}
		}
	}
	s.T.Fatalf("turn %s has not ended", turn)
	return nil
}

// A new version is registered during a call, and a node that knows only the new one takes the turn over. The history is
// the replay.
func turnKeepsItsManifest(t *testing.T, on place) {
	s := on.start(t, append(calling("write", `{"text":"milk","hold":true}`), harness.Reply(harness.Text("next")))...)
	kill := s.node()
	s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	s.client().accept(registration("2", "write", "another"))
	s.node()
	kill()
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result of the call of version 1", s.CallResult(id, "k"), "noted: milk")
	s.RunTurn(id, "t2", harness.Text("more"))
	n := len(s.Model.Requests())
	runtest.DeepEqual(t, "model calls", n, 3)
	before, after := notesTools(t), []string{"another", "write"}
	runtest.DeepEqual(t, "tools before the takeover", s.offeredTools(0), before)
	runtest.DeepEqual(t, "tools after the takeover", s.offeredTools(1), before)
	runtest.DeepEqual(t, "tools of the next turn", s.offeredTools(2), after)
	runtest.DeepEqual(t, "replay of the first turn", s.toolsOfTurn(id, "t1"), before)
	runtest.DeepEqual(t, "replay of the second turn", s.toolsOfTurn(id, "t2"), after)
}

// No process is started for a call: it fails at once.
func toolsWithoutInstance(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk"}`)...)
	s.node()
	s.program("i1").kill()
	s.alive(0)
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.DeepEqual(t, "tools", s.offeredTools(0), notesTools(t))
	runtest.Contains(t, "result", s.CallResult(id, "k"), "no instance of plugin notes runs")
}

func orderOfTools(t *testing.T, on place) {
	s := on.start(t)
	names := []string{"one", "two", "three"}
	var want string
	for restart := range 5 {
		b := s.on.open(t)
		var list []external.Plugin
		for _, name := range names {
			list = append(list, external.Plugin{Name: name})
		}
		p, err := external.New(external.Config{Bus: b, Plugins: list})
		runtest.WantError(t, "plugins", err, nil)
		runtest.WantError(t, "start", p.Start(s.Ctx), nil)
		_, kill := s.StartNodeOn(b, p.Factories()...)
		c := s.client()
		shuffled := slices.Clone(names)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, name := range shuffled {
			if answer := c.request(name, "register", registration("1", "z"+name, "a"+name)); answer.Error != nil {
				t.Fatalf("register %s: got %+v", name, answer.Error)
			}
		}
		s.Model.Rescript(harness.Reply(harness.Text("done")))
		s.AwaitTurn(s.begin(), "t1")
		requests := s.Model.Requests()
		got := fmt.Sprint(requests[len(requests)-1].Tools)
		if restart == 0 {
			want = got
		}
		if got != want || !strings.Contains(got, "athree") {
			t.Errorf("restart %d: got tools %s, want %s", restart, got, want)
		}
		kill()
		p.Stop()
	}
}
