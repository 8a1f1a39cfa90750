// Package subagent lets the model delegate work to child sessions. spawn_agent opens a child session with a named
// capability, gives it a task, and waits for its answer or lets it work in the background. send_agent gives an agent
// further work. list_agents and close_agent manage agents. A call that waits for an agent's answer is parked in the history: it occupies no
// node, unless another call made it, or it runs in the background.
//
// Guarantees: the ids of an agent's session, turns and task follow from the call. A call that runs again, here or
// after a takeover, creates no second agent, and waits for the turn that already runs. An agent is a background task
// of its parent: running during a turn, else waiting. Its usage is charged to the parent as "subagent". Cancelling
// its task closes it. The answer of a background turn becomes an input of the parent, once. Cancelling a turn of the
// parent cancels the agents' turns that it waits for. An agent has the plugin options of its parent's session, so the
// same rules bind it. Agents may have agents, by default five levels deep. The package imports session/plugin and
// below.
package subagent

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories, and the agents' usage in the ledger of the parent.
const ID = "subagent"

const spawnTool = "spawn_agent"

// Config configures the plugin.
type Config struct {
	Capabilities []Capability // defaults to Explore and Peer
	MaxDepth     int64        // levels of agents below a root. Defaults to 5
}

// Factory builds the plugin.
func Factory(cfg Config) plugin.Factory {
	if cfg.Capabilities == nil {
		cfg.Capabilities = []Capability{Explore(), Peer()}
	}
	if cfg.MaxDepth == 0 {
		cfg.MaxDepth = 5
	}
	return plugin.Func(ID, func(r *plugin.Registrar) error { return agents{cfg}.register(r) })
}

type agents struct{ Config }

func (a agents) register(r *plugin.Registrar) error {
	again := func(name, description string) plugin.Tool {
		return plugin.Tool{Name: name, Description: description, Effects: events.EffectsIdempotent}
	}
	plugin.AddTool(r, again(spawnTool, describe(a.Capabilities)), a.spawn)
	plugin.AddTool(r, again("send_agent", "Gives an agent its next task, and waits for its answer."), a.send)
	plugin.AddTool(r, again("close_agent", "Ends an agent and the agents that it has itself."), a.close)
	plugin.AddTool(r, plugin.Tool{Name: "list_agents", Effects: events.EffectsNone, Description: "Lists your agents."}, a.list)
	r.Lifecycle(a.ended)
	return nil
}

type spawnRequest struct {
	Capability string `json:"capability"`
	Task       string `json:"task" jsonschema:"everything that the agent has to know"`
	Background bool   `json:"background,omitempty" jsonschema:"do not wait: the answer comes later, as a message"`
}

func (a agents) spawn(ctx context.Context, call plugin.Call, in spawnRequest) (plugin.Result, error) {
	at := find(a.Capabilities, in.Capability)
	if at < 0 {
		return plugin.Result{}, refusal(plugin.ClassInvalidRequest, "there is no capability %q", in.Capability)
	}
	state, err := call.Host.SnapshotCurrent(ctx)
	if err != nil {
		return plugin.Result{}, err
	}
	as := events.Subagent{Capability: in.Capability, Depth: state.Subagent.Depth + 1, MaxDepth: a.MaxDepth}
	if !state.Subagent.IsZero() {
		as.MaxDepth = state.Subagent.MaxDepth
	}
	if as.Depth > as.MaxDepth {
		return plugin.Result{}, refusal(plugin.ClassResourceLimit, "agents are at most %d levels deep", as.MaxDepth)
	}
	req := api.CreateRequest{ID: events.SessionID(events.DerivedID("agent-", call.Key)), Parent: call.Session, Subagent: as, Usage: ID, Options: maps.Clone(state.Options)}
	if as.Depth == as.MaxDepth {
		req.Access.Hidden = []string{spawnTool}
	}
	if shape := a.Capabilities[at].Shape; shape != nil {
		shape(&req)
	}
	if _, err := call.Host.CreateSession(ctx, req); err != nil && !errors.Is(err, api.ErrExists) {
		return plugin.Result{}, err
	}
	if err := register(ctx, call, req.ID); err != nil {
		return plugin.Result{}, err
	}
	return turn(ctx, call, req.ID, in.Task, in.Background)
}

// register makes the agent a task of its parent, once.
func register(ctx context.Context, call plugin.Call, agent events.SessionID) error {
	if known, err := lookUp(ctx, call, agent); known || err != nil {
		return err
	}
	_, err := call.Host.RegisterTask(ctx, call.Session, api.TaskRequest{
		ID: events.TaskID(agent), Of: events.TaskSubagent, Producer: ID, Child: agent, Close: events.CloseCancel,
	})
	return err
}

type sendRequest struct {
	Agent      events.SessionID `json:"agent"`
	Message    string           `json:"message"`
	Background bool             `json:"background,omitempty" jsonschema:"do not wait: the answer comes later, as a message"`
}

func (a agents) send(ctx context.Context, call plugin.Call, in sendRequest) (plugin.Result, error) {
	if err := own(ctx, call, in.Agent); err != nil {
		return plugin.Result{}, err
	}
	return turn(ctx, call, in.Agent, in.Message, in.Background)
}

func (a agents) list(ctx context.Context, call plugin.Call, _ struct{}) ([]api.AgentState, error) {
	tasks, err := call.Host.Tasks(ctx, call.Session)
	list := []api.AgentState{}
	for i := range tasks {
		if !tasks[i].Live() || tasks[i].Of != events.TaskSubagent {
			continue
		}
		child, err := call.Host.SnapshotSession(ctx, tasks[i].Child)
		if err != nil {
			return nil, err
		}
		agent := api.AgentState{Agent: child.Session, Capability: child.Subagent.Capability, State: events.TaskRunning}
		if child.Idle() {
			agent.State = events.TaskWaiting
		}
		list = append(list, agent)
	}
	return list, err
}

func (a agents) close(ctx context.Context, call plugin.Call, in struct {
	Agent events.SessionID `json:"agent"`
},
) (string, error) {
	if err := own(ctx, call, in.Agent); err != nil {
		return "", err
	}
	return "closed", closeTree(ctx, call.Host, call.Session, in.Agent)
}

// closeTree closes an agent, and before it the agents below.
func closeTree(ctx context.Context, host plugin.ToolHost, parent, agent events.SessionID) error {
	tasks, err := host.Tasks(ctx, agent)
	if err != nil {
		return err
	}
	for i := range tasks {
		if tasks[i].Live() && tasks[i].Of == events.TaskSubagent {
			if err := closeTree(ctx, host, agent, tasks[i].Child); err != nil {
				return err
			}
		}
	}
	if err := cancelTurns(ctx, host, agent, func(events.TurnID) bool { return true }, true); err != nil {
		return err
	}
	if err := host.CloseSession(ctx, agent); err != nil {
		return err
	}
	return host.EndTask(ctx, parent, events.TaskID(agent), events.TaskCompleted, "closed")
}

// own rejects an agent that is not the caller's.
func own(ctx context.Context, call plugin.Call, agent events.SessionID) error {
	known, err := lookUp(ctx, call, agent)
	if err == nil && !known {
		err = refusal(plugin.ClassInvalidRequest, "you have no agent %q", agent)
	}
	return err
}

func lookUp(ctx context.Context, call plugin.Call, agent events.SessionID) (known bool, err error) {
	tasks, err := call.Host.Tasks(ctx, call.Session)
	for i := range tasks {
		known = known || tasks[i].Live() && tasks[i].Of == events.TaskSubagent && tasks[i].Child == agent
	}
	return known, err
}

func refusal(class, format string, args ...any) error {
	return &plugin.Failure{Class: class, Message: fmt.Sprintf(format, args...)}
}
