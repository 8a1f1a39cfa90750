package builtin_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/subagent"
)

// host keeps what a session does with its agents.
type subagentHost struct {
	plugin.Absent
	self   events.Subagent
	create error

	created []api.CreateRequest
	tasks   []projector.Task
	states  []events.TaskState
	turns   []api.TurnRequest
	waited  bool
	answers events.EffectID // call that the last turn answers
}

func (h *subagentHost) SnapshotCurrent(context.Context) (*projector.State, error) {
	s := projector.New("s")
	s.Subagent, s.Options = h.self, map[string]string{"gate": `{"deny":["run"]}`}
	return s, nil
}

func (h *subagentHost) CreateSession(_ context.Context, req api.CreateRequest) (api.Handle, error) {
	h.created = append(h.created, req)
	return api.Handle{Session: req.ID}, h.create
}

func (h *subagentHost) Tasks(context.Context, events.SessionID) ([]projector.Task, error) {
	return h.tasks, nil
}

func (h *subagentHost) RegisterTask(_ context.Context, _ events.SessionID, req api.TaskRequest) (projector.Task, error) {
	h.tasks = append(h.tasks, projector.Task{ID: req.ID, Of: req.Of, Child: req.Child, State: events.TaskRunning, Close: req.Close})
	return h.tasks[len(h.tasks)-1], nil
}

func (h *subagentHost) TransitionTask(_ context.Context, _ events.SessionID, _ events.TaskID, to events.TaskState) error {
	h.states = append(h.states, to)
	return nil
}

func (h *subagentHost) StartTurn(_ context.Context, _ events.SessionID, req api.TurnRequest) (api.AssembledTurn, error) {
	h.turns, h.waited = append(h.turns, req), true
	return api.AssembledTurn{Output: api.AssistantOutput{SafeText: "forty-two"}}, nil
}

func (h *subagentHost) AnswerByTurn(_ context.Context, key events.EffectID, _ events.SessionID, req api.TurnRequest) error {
	h.turns, h.answers = append(h.turns, req), key
	return nil
}

func (h *subagentHost) StartTurnStream(_ context.Context, _ events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	h.turns = append(h.turns, req)
	return req.ID, nil, nil
}

func spawn(t *testing.T, cfg subagent.Config, h *subagentHost, key, args string) (plugin.Result, error) {
	t.Helper()
	return builtintest.Call(t, builtintest.Build(t, plugin.BuildContext{}, subagent.Factory(cfg)), plugin.Call{Host: h, Key: key}, "spawn_agent", args)
}

// TestSpawn creates an agent with the options of its parent, whose turn answers the call. An inner call waits for the answer itself.
func TestSpawn(t *testing.T) {
	t.Parallel()
	for _, inner := range []bool{false, true} {
		testSpawn(t, inner)
	}
}

func testSpawn(t *testing.T, inner bool) {
	t.Helper()
	h := &subagentHost{}
	s := builtintest.Build(t, plugin.BuildContext{}, subagent.Factory(subagent.Config{}))
	got, err := builtintest.Call(t, s, plugin.Call{Host: h, Key: "k1", Effect: "t1/0/0", Inner: inner}, "spawn_agent", `{"capability":"explore","task":"count"}`)
	if err != nil || len(h.created) != 1 || len(h.tasks) != 1 || len(h.turns) != 1 {
		t.Fatalf("got %d sessions, %d tasks, %d turns, %v, want one of each", len(h.created), len(h.tasks), len(h.turns), err)
	}
	made := h.created[0]
	if made.Parent != "s" || made.Usage != subagent.ID || made.Options["gate"] == "" || made.Plugins != "" || made.Subagent != (events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5}) || len(made.Access.Hidden) > 0 {
		t.Errorf("session: got %+v, want a child on level 1 of 5 with the parent's options", made)
	}
	if k := h.tasks[0]; k.Of != events.TaskSubagent || k.Child != made.ID || k.ID != events.TaskID(made.ID) || k.Close != events.CloseCancel {
		t.Errorf("task: got %+v, want one of the session, which ends with it", k)
	}
	switch {
	case inner && (!slices.Equal(h.states, []events.TaskState{events.TaskRunning, events.TaskWaiting}) || !strings.Contains(got.Text, `"answer":"forty-two"`) || !h.waited):
		t.Errorf("inner: got %s with the states %v, want the answer, running and then waiting", got.Text, h.states)
	case !inner && (!slices.Equal(h.states, []events.TaskState{events.TaskRunning}) || !got.Pending || h.waited || h.answers != "t1/0/0"):
		t.Errorf("got %+v with the states %v, and a turn that answers %q, want it pending", got, h.states, h.answers)
	}
}

// TestRepeats: a call that runs again has the same session, task and turn; another call has others.
func TestRepeats(t *testing.T) {
	t.Parallel()
	h := &subagentHost{}
	for _, key := range []string{"k1", "k1", "k2"} {
		if len(h.created) > 0 {
			h.create = api.ErrExists
		}
		_, err := spawn(t, subagent.Config{}, h, key, `{"capability":"explore","task":"count"}`)
		runtest.NoError(t, err)
	}
	if a, b, c := h.created[0].ID, h.created[1].ID, h.created[2].ID; a != b || a == c {
		t.Errorf("sessions: got %s, %s, %s, want the first twice", a, b, c)
	}
	if a, b, c := h.turns[0].ID, h.turns[1].ID, h.turns[2].ID; a != b || a == c {
		t.Errorf("turns: got %s, %s, %s, want the first twice", a, b, c)
	}
	if len(h.tasks) != 2 {
		t.Errorf("got %d tasks, want 2", len(h.tasks))
	}
}

// TestBackground does not wait, and the ids of its turns are others than those of calls that wait.
func TestBackground(t *testing.T) {
	t.Parallel()
	h := &subagentHost{}
	got, err := spawn(t, subagent.Config{}, h, "k1", `{"capability":"peer","task":"count","background":true}`)
	if err != nil || h.waited || !strings.HasPrefix(string(h.turns[0].ID), "bg-") || !strings.Contains(got.Text, `"state":"running"`) {
		t.Errorf("got %s, %v, turn %s, want it running", got.Text, err, h.turns[0].ID)
	}
	if h.created[0].Plugins != api.PluginsFork {
		t.Errorf("peer: got plugins %q, want those of the parent", h.created[0].Plugins)
	}
}

// TestDepth: agents of the lowest level cannot have agents. The limit is that of the root's node.
func TestDepth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		self   events.Subagent
		max    int64
		refuse bool
		hidden bool
	}{
		"root":              {events.Subagent{}, 2, false, false},
		"lowest_agent":      {events.Subagent{Capability: "x", Depth: 1, MaxDepth: 2}, 9, false, true},
		"below_the_lowest":  {events.Subagent{Capability: "x", Depth: 2, MaxDepth: 2}, 9, true, false},
		"default_limit":     {events.Subagent{}, 0, false, false},
		"one_level":         {events.Subagent{}, 1, false, true},
		"no_agents_allowed": {events.Subagent{}, -1, true, false},
	} {
		h := &subagentHost{self: c.self}
		_, err := spawn(t, subagent.Config{MaxDepth: c.max}, h, "k", `{"capability":"explore","task":"x"}`)
		if c.refuse {
			builtintest.Refused(t, name, err, plugin.ClassResourceLimit, "levels deep")
			continue
		}
		if err != nil || slices.Contains(h.created[0].Access.Hidden, "spawn_agent") != c.hidden {
			t.Errorf("%s: got %v with the tools %v hidden, want spawn_agent hidden: %t", name, err, h.created[0].Access.Hidden, c.hidden)
		}
	}
}

// TestSubagentRefused: an unknown capability, and agents of others.
func TestSubagentRefused(t *testing.T) {
	t.Parallel()
	h := &subagentHost{tasks: []projector.Task{
		{ID: "ended", Of: events.TaskSubagent, Child: "ended", State: events.TaskCompleted},
		{ID: "tool", Of: events.TaskTool, Child: "tool", State: events.TaskRunning},
	}}
	s := builtintest.Build(t, plugin.BuildContext{}, subagent.Factory(subagent.Config{Capabilities: []subagent.Capability{{Name: "only", Description: "is alone"}}}))
	for _, c := range []struct{ tool, args, want string }{
		{"spawn_agent", `{"capability":"explore","task":"x"}`, `there is no capability "explore"`},
		{"spawn_agent", `{"capability":"","task":"x"}`, `there is no capability ""`},
		{"send_agent", `{"agent":"of-another","message":"x"}`, `you have no agent "of-another"`},
		{"send_agent", `{"agent":"ended","message":"x"}`, `you have no agent "ended"`},
		{"close_agent", `{"agent":"tool"}`, `you have no agent "tool"`},
		{"close_agent", `{"agent":""}`, `you have no agent ""`},
	} {
		_, err := builtintest.Call(t, s, plugin.Call{Host: h, Key: "k"}, c.tool, c.args)
		builtintest.Refused(t, c.tool+" "+c.args, err, plugin.ClassInvalidRequest, c.want)
	}
	if len(h.created)+len(h.turns)+len(h.states) > 0 {
		t.Errorf("got %+v, want nothing done", h)
	}
	if tool, _ := s.Tools().Find("spawn_agent"); !strings.Contains(tool.Description, "Capabilities: only (is alone).") {
		t.Errorf("description: got %q, want the capabilities", tool.Description)
	}
}
