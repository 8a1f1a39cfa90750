package external

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// TestTurnCostsNoFurtherAppend compares turns of a session with an external plugin with those of a session without one:
// the log gets the same number of commits, and the plugin's state once for each manifest.
func TestTurnCostsNoFurtherAppend(t *testing.T) {
	t.Parallel()
	commits := func(s *setting) (id events.SessionID, each []events.Seq) {
		id = s.Open(api.CreateRequest{})
		for n := range 3 {
			before := s.LastSeq(id)
			s.Model.Rescript(harness.Reply(harness.Text("done")))
			s.RunTurn(id, events.TurnID(fmt.Sprint("t", n)), harness.Text("x"))
			each = append(each, s.LastSeq(id)-before)
		}
		return id, each
	}
	without := start(t)
	n, _ := without.StartNodeOn(without.on.open(t))
	without.Host = n.Host()
	_, want := commits(without)
	for name, scope := range map[string]wire.Scope{"shared": wire.ScopeShared, "session": wire.ScopeSession} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.node()
			s.env = []string{scopeVariable + "=" + string(scope)}
			s.program("i1")
			id, got := commits(s)
			runtest.DeepEqual(t, "commits of each turn", got, want)
			saved := 0
			for _, p := range harness.Find[*events.PluginStateSaved](s.System, id) {
				if p.Plugin == "notes" {
					saved++
				}
			}
			runtest.DeepEqual(t, "states of the plugin", saved, 1)
		})
	}
}

// TestManifestLostWhileNodesLive deletes the table of manifests. Two nodes that live write it again: a version that was
// replaced before stays refused, and both nodes follow a later version although the table's revisions began again.
func TestManifestLostWhileNodesLive(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.node()
	c := s.client()
	c.accept(registration("1", "a"))
	c.accept(registration("2", "b"))
	second := s.plugins(s.on.open(t))
	runtest.WantError(t, "delete the table", s.JetStream().DeleteKeyValue(s.Ctx, s.on.prefix+"-plugins"), nil)
	s.on.open(t) // makes it again
	c.refuse(registration("1", "a"), "was replaced")
	c.accept(registration("3", "c"))
	for name, p := range map[string]*external.Plugins{"first": s.first, "second": second} {
		s.AwaitPolling(name+" node has version 3", func() bool { return p.Status()[0].Version == "3" })
	}
	c.refuse(registration("2", "b"), "was replaced")
}

// TestPlacedInstanceDiesDuringCall kills the instance of a session while a tool runs: a call that may repeat runs on
// another instance after the history has the new placement, another one is lost.
func TestPlacedInstanceDiesDuringCall(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"look": "noted: milk", "write": "[lost]"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t, append(calling(tool, `{"text":"milk","hold":true}`), calling(tool, `{"text":"eggs"}`)...)...)
			s.node()
			programs := s.placed("", "i1", "i2")
			id := s.begin()
			first := strings.Fields(s.logged("began", 1)[1])[2]
			programs[first].kill()
			s.release()
			s.AwaitTurn(id, "t1")
			if got := s.CallResult(id, "k"); !strings.HasPrefix(got, want) {
				t.Errorf("result: got %q, want %q", got, want)
			}
			s.RunTurn(id, "t2", harness.Text("more"))
			if at := s.placement(id); at.Epoch != 2 || at.Instance == first {
				t.Errorf("placement: got %+v, want epoch 2 on the other instance", at)
			}
			runtest.DeepEqual(t, "starts", len(s.lines("started")), 2)
		})
	}
}

// TestPlacedInstanceDiesDuringModelCall kills the instance of a session before the model calls a tool: the call runs on
// another one, and the event that names it is followed by the placement.
func TestPlacedInstanceDiesDuringModelCall(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.node()
	programs := s.placed("", "i1", "i2")
	id := s.Open(api.CreateRequest{})
	script := calling("write", `{"text":"milk"}`)
	first := ""
	script[0] = harness.DoFirst(func() {
		first = s.placement(id).Instance
		programs[first].kill()
		s.alive(1)
	}, script[0])
	s.Model.Rescript(script...)
	s.RunTurn(id, "t1", harness.Text("x"))
	runtest.DeepEqual(t, "result", s.CallResult(id, "k"), "noted: milk")
	at := s.placement(id)
	if at.Epoch != 2 || at.Instance == first {
		t.Errorf("placement: got %+v, want epoch 2 on another instance than %s", at, first)
	}
	runtest.DeepEqual(t, "holders", s.holders(id), []string{at.Instance})
	history := s.History(id)
	called := slices.IndexFunc(history, func(e events.Event) bool { return e.Kind == events.KindToolCalled })
	if _, ok := history[called+1].Payload.(*events.PluginStateSaved); !ok {
		t.Errorf("after the call: got %s, want the state of the plugin", history[called+1].Kind)
	}
}

// TestPlacementIsAgreed has a session's turns run on nodes that come and go, and one call for each: all run on one of
// three instances, which got one start.
func TestPlacementIsAgreed(t *testing.T) {
	t.Parallel()
	s := start(t)
	kill := s.node()
	s.placed("", "i1", "i2", "i3")
	id := s.Open(api.CreateRequest{})
	for n := range 4 {
		s.Model.Rescript(calling("look", `{"text":"milk"}`)...)
		s.RunTurn(id, events.TurnID(fmt.Sprint("t", n)), harness.Text("x"))
		next := s.node()
		kill()
		kill = next
	}
	at := s.placement(id)
	runtest.DeepEqual(t, "starts", s.lines("started"), []string{"started 1 " + at.Instance})
	for _, line := range s.lines("began") {
		if !strings.HasSuffix(line, " "+at.Instance) {
			t.Errorf("run: got %q, want it on %s", line, at.Instance)
		}
	}
}

// TestLateIdleHint sends hints that a session is idle. An instance that had a call since the hint's time ignores it, and
// one that ended the session refuses its epoch.
func TestLateIdleHint(t *testing.T) {
	t.Parallel()
	s := start(t, append(calling("look", `{"text":"milk"}`), calling("look", `{"text":"eggs"}`)...)...)
	s.node()
	s.placed("end", "i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	c := s.client()
	for _, hint := range []struct {
		quiet time.Duration
		epoch int64
		ended bool
	}{{time.Hour, 1, false}, {0, 2, false}, {0, 1, true}, {0, 1, false}} {
		body, err := json.Marshal(&wire.Idle{Session: id, Epoch: hint.epoch, QuietMS: hint.quiet.Milliseconds()})
		runtest.WantError(t, "hint", err, nil)
		m, err := c.nc.Request(c.prefix+".plugin.notes."+s.idOf("i1")+".idle", body, time.Minute)
		runtest.WantError(t, "hint", err, nil)
		var answer wire.IdleAnswer
		runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
		runtest.DeepEqual(t, fmt.Sprintf("ended by %+v", hint), answer.Ended, hint.ended)
	}
	s.RunTurn(id, "t2", harness.Text("more")) // the node does not know that the placement ended
	runtest.DeepEqual(t, "log", s.lines("started", "began"), []string{"started 1 i1", "began t1/0/0 i1", "started 2 i1", "began t2/0/0 i1"})
}

// TestFloods has one plugin send what no plugin should: signs of 3 000 instances, large ones, and garbage as
// registrations. The node knows a bounded number of its instances, and another plugin registers and gets calls meanwhile.
func TestFloods(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := s.on.open(t)
	p, err := external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "notes"}, {Name: "flood"}}})
	runtest.WantError(t, "plugins", err, nil)
	runtest.WantError(t, "start", p.Start(s.Ctx), nil)
	t.Cleanup(p.Stop)
	s.first = p
	n, _ := s.StartNodeOn(b, p.Factories()...)
	s.Host = n.Host()
	c := s.client()
	r := registration("1", "flooded")
	if answer := c.request("flood", "register", r); answer.Error != nil {
		t.Fatalf("register: got %+v", answer.Error)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	var all atomic.Int64 // messages of each kind
	go func() {          // ends with over
		defer close(ended)
		garbage := []byte(`{"protocol":1,"instance":"` + strings.Repeat("x", 4000))
		sign, large := fmt.Appendf(nil, `{"hash":%q}`, r.Manifest.Hash()), []byte(`{"hash":"`+strings.Repeat("x", 200_000)+`"}`)
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-over:
				return
			case <-every.C:
			}
			for i := range 100 {
				_ = c.nc.PublishRequest(s.on.prefix+".plugins.flood.register", "_INBOX.none."+fmt.Sprint(i), garbage)
				_ = c.nc.Publish(fmt.Sprint(s.on.prefix, ".plugin-live.flood.i", all.Add(1)%3000), sign)
			}
			_ = c.nc.Publish(s.on.prefix+".plugin-live.flood.large", large)
		}
	}()
	s.program("i1")
	for n := range 5 {
		s.Model.Rescript(calling("write", `{"text":"milk"}`)...)
		id := s.begin()
		s.AwaitTurn(id, "t1")
		runtest.DeepEqual(t, fmt.Sprint("result ", n), s.CallResult(id, "k"), "noted: milk")
	}
	s.AwaitPolling("signs of all instances", func() bool { return all.Load() >= 6000 })
	s.AwaitPolling("all instances that a node knows", func() bool { return len(p.Status()[1].Instances) == 1024 })
	close(over)
	<-ended
	for _, i := range p.Status()[1].Instances {
		if i.ID == "large" {
			t.Error("the instance with the large sign is known")
		}
	}
}
