package external

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

var lifecycleCases = []serviceCase{
	{"T54_idle_session_ends_and_starts_again", idleSessionEnds},
	{"T55_session_with_a_running_call_is_not_idle", busySessionIsNotIdle},
	{"T56_placement_moves_when_its_instance_is_gone", placementMoves},
	{"T57_rolling_upgrade_loses_no_call", rollingUpgrade},
	{"T58_one_version_takes_calls", oneVersionTakesCalls},
}

// placed starts programs that each serve whole sessions.
func (s *setting) placed(idle string, instances ...string) map[string]*process {
	s.T.Helper()
	s.env = []string{scopeVariable + "=session", idleVariable + "=" + idle}
	list := make(map[string]*process)
	for _, id := range instances {
		list[id] = s.program(id)
	}
	return list
}

// lines are the lines of the plugin's file that begin with one of the words.
func (s *setting) lines(words ...string) (list []string) {
	for _, line := range s.logged("began", 0) {
		if slices.Contains(words, strings.Fields(line + " -")[0]) {
			list = append(list, strings.Join(strings.Fields(line)[:3], " "))
		}
	}
	return list
}

// placement is what the history has of the session's instance.
func (s *setting) placement(id events.SessionID) (at struct {
	Instance string
	Epoch    int64
},
) {
	s.T.Helper()
	saved := s.StateOf(id).Plugin("notes")
	if saved == nil {
		s.T.Fatal("the history has no placement")
	}
	runtest.WantError(s.T, "placement", json.Unmarshal(saved.State, &at), nil)
	at.Instance = nameOf(at.Instance)
	return at
}

// The instance ends itself when it is told that its only session is idle. The next call starts the session on another
// one, with the next epoch.
func idleSessionEnds(t *testing.T, on place) {
	s := on.start(t, append(calling("write", `{"text":"milk"}`), calling("write", `{"text":"eggs"}`)...)...)
	s.config.Idle = 300 * time.Millisecond
	s.node()
	programs := s.placed("exit", "i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.logged("idle", 1)
	runtest.WantError(t, "the program", programs["i1"].cmd.Wait(), nil)
	s.live = 0
	s.alive(0)
	s.placed("", "i2")
	s.RunTurn(id, "t2", harness.Text("more"))
	s.logged("idle", 2)
	runtest.DeepEqual(t, "log", s.lines("started", "began", "idle"), []string{
		"started 1 i1", "began t1/0/0 i1", "idle - i1", "started 2 i2", "began t2/0/0 i2", "idle - i2",
	})
	runtest.DeepEqual(t, "holders", s.holders(id), []string{"i1", "i2"})
}

// Whether people watch a session is not known to a node, so a hint may come for a session that is watched.
func busySessionIsNotIdle(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk","millis":1500}`)...)
	s.config.Idle = 300 * time.Millisecond
	s.node()
	s.placed("end", "i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.logged("idle", 1)
	runtest.DeepEqual(t, "log", s.lines("began", "ended", "idle"), []string{"began t1/0/0 i1", "ended t1/0/0 i1", "idle - i1"})
}

// An instance writes nothing durable, so the refusals are those of calls: with an old epoch, and on an instance that
// does not have the session.
func placementMoves(t *testing.T, on place) {
	s := on.start(t, append(calling("look", `{"text":"milk"}`), calling("write", `{"text":"eggs"}`)...)...)
	kill := s.node()
	programs := s.placed("", "i1", "i2")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	first := s.placement(id)
	second := map[string]string{"i1": "i2", "i2": "i1"}[first.Instance]
	programs[first.Instance].signal(syscall.SIGSTOP)
	s.alive(1)
	s.node() // another node agrees: the history has the placement
	kill()
	s.RunTurn(id, "t2", harness.Text("more"))
	if got := s.placement(id); got.Instance != second || got.Epoch != 2 || first.Epoch != 1 {
		t.Errorf("placements: got %+v and %+v, want epoch 1, and epoch 2 on %s", first, got, second)
	}
	runtest.DeepEqual(t, "starts", s.lines("started"), []string{"started 1 " + first.Instance, "started 2 " + second})
	programs[first.Instance].signal(syscall.SIGCONT)
	c := s.client()
	for _, refused := range []struct {
		instance string
		epoch    int64
	}{{second, 1}, {first.Instance, 2}, {second, 3}, {second, 0}} {
		body, err := json.Marshal(&wire.Call{CallID: wire.CallID{Session: id, Call: "late"}, Tool: "write", Args: json.RawMessage(`{"text":"x"}`), Epoch: refused.epoch})
		runtest.WantError(t, "call", err, nil)
		var answer wire.Progress
		m, err := c.nc.Request(c.prefix+".plugin.notes."+s.idOf(refused.instance)+".call", body, time.Minute)
		runtest.WantError(t, "call", err, nil)
		runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
		if answer.Error == nil || answer.Error.Code != wire.CodeNotOwner {
			t.Errorf("epoch %d on %s: got %+v, want %s", refused.epoch, refused.instance, answer, wire.CodeNotOwner)
		}
	}
	runtest.DeepEqual(t, "runs", s.began(), 2)
}

func rollingUpgrade(t *testing.T, on place) {
	upgrade(t, on, func(s *setting, _ *process) {
		c := s.client()
		runtest.WantError(t, "drain", c.nc.Publish(c.prefix+".plugin.notes."+s.idOf("old")+".drain", nil), nil)
		runtest.WantError(t, "drain", c.nc.Flush(), nil)
	})
}

// TestRollingUpgradeBySignal ends the old program with SIGTERM.
func TestRollingUpgradeBySignal(t *testing.T) {
	t.Parallel()
	upgrade(t, oneServer(t), func(_ *setting, old *process) { old.signal(syscall.SIGTERM) })
}

// upgrade replaces a program by one of a new version while calls run.
func upgrade(t *testing.T, on place, end func(s *setting, old *process)) {
	t.Helper()
	const open = 3
	var script []harness.Step
	for range open {
		script = append(script, harness.Reply(harness.Call("k", "write", `{"text":"old","hold":true}`)))
	}
	s := on.start(t, script...)
	s.node()
	old := s.program("old")
	var ids []events.SessionID
	for n := range open {
		ids = append(ids, s.begin())
		s.logged("began", n+1)
	}
	s.env = []string{versionVariable + "=2"}
	s.program("new")
	s.Model.Rescript(slices.Repeat([]harness.Step{harness.Reply(harness.Text("done"))}, open)...)
	end(s, old)
	s.draining("old")
	s.release()
	for _, id := range ids {
		s.AwaitTurn(id, "t1")
		runtest.DeepEqual(t, "result of the old version", s.CallResult(id, "k"), "noted: old")
		runtest.DeepEqual(t, "holders", s.holders(id), []string{"old"})
	}
	runtest.WantError(t, "the drained program", old.cmd.Wait(), nil)
	s.Model.Rescript(calling("write", `{"text":"new"}`)...)
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.DeepEqual(t, "result of the new version", s.CallResult(id, "k"), "noted: new")
	runtest.DeepEqual(t, "holders", s.holders(id), []string{"new"})
}

// The old version runs its call to the end, and gets no new one while the new version is registered; nor does an old
// instance that returns. A rollback turns this around.
func oneVersionTakesCalls(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"old","hold":true}`)[0])
	s.node()
	s.program("old")
	first := s.begin()
	s.logged("began", 1)
	s.env = []string{versionVariable + "=2"}
	s.program("new")
	c := s.client()
	registered, err := s.Bus.Manifests().Get(s.Ctx, "notes")
	runtest.WantError(t, "row", err, nil)
	var row struct{ Manifest wire.Manifest }
	runtest.WantError(t, "row", json.Unmarshal(registered.Value, &row), nil)
	returning := &wire.Registration{Protocol: wire.Version, Instance: "again", Manifest: row.Manifest}
	returning.Manifest.Version = "1"
	c.refuse(returning, `"1" was replaced by version "2"`)
	for n, want := range []string{"new", "new", "old"} {
		if want == "old" {
			returning.Rollback = true
			c.accept(returning)
			s.AwaitPolling("version 1", func() bool { return s.first.Status()[0].Version == "1" })
		}
		for _, i := range s.first.Status()[0].Instances {
			runtest.DeepEqual(t, "instance "+i.ID+" takes calls", i.Current, nameOf(i.ID) == want)
		}
		s.Model.Rescript(append(calling("look", fmt.Sprintf(`{"text":"%d"}`, n)), harness.Reply(harness.Text("done")))...)
		id := s.begin()
		s.AwaitTurn(id, "t1")
		runtest.DeepEqual(t, "result", s.CallResult(id, "k"), fmt.Sprintf("noted: %d", n))
		if n == 0 {
			s.release()
			s.AwaitTurn(first, "t1")
			runtest.DeepEqual(t, "result of the old version", s.CallResult(first, "k"), "noted: old")
		}
		runs := s.lines("began")
		if got := runs[len(runs)-1]; !strings.HasSuffix(got, " "+want) {
			t.Errorf("call %d: got %q, want it on %s", n, got, want)
		}
	}
}
