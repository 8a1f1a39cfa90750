package background

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/internal/process"
)

// maxReport limits the output of a command in a report, in bytes.
const maxReport = 8 << 10

type taskRequest struct {
	ID      events.TaskID `json:"id" jsonschema:"a short name of your choice"`
	Command string        `json:"command"`
	Cwd     string        `json:"cwd,omitempty"`
	Where   string        `json:"environment,omitempty" jsonschema:"where it runs, if not in the environment of the session"`
}

// begin starts a command that outlives the turn.
func (b *background) begin(ctx context.Context, call plugin.Call, in taskRequest) (string, error) {
	if err := events.CheckToken("id", string(in.ID)); err != nil {
		return "", plugin.InvalidArgs("%v", err)
	}
	if strings.TrimSpace(in.Command) == "" {
		return "", plugin.InvalidArgs("command: is blank")
	}
	req := api.TaskRequest{ID: in.ID, Of: events.TaskTool, Producer: ID, Close: events.CloseCancel}
	where, err := call.Environment(in.Where)
	if err != nil {
		return "", err
	}
	root := cmp.Or(where.Dir, b.cfg.Dir)
	place, err := gate.Cwd(root, in.Cwd, call)
	if err != nil {
		return "", err
	}
	command := process.Command{Script: in.Command, Dir: root, Place: place, In: where}
	err = call.Host.SpawnTask(ctx, call.Session, req, func(ctx context.Context) error {
		return work(ctx, call, in.ID, command, where.MaxTime)
	})
	if err != nil {
		return "", err
	}
	return "It runs. You will be told when it has ended.", nil
}

// work runs the command and requests a turn with its result. The turn's id follows from the call, so repeats are
// harmless. A task that was stopped requests no turn: its caller knows.
func work(ctx context.Context, call plugin.Call, id events.TaskID, command process.Command, limit time.Duration) error {
	bounded, end := context.WithTimeout(ctx, cmp.Or(limit, math.MaxInt64))
	defer end()
	began := time.Now()
	out, err := process.Run(bounded, command, maxReport)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	how := out.How()
	switch {
	case err != nil:
		how = err.Error()
	case out.Killed:
		how = fmt.Sprintf("killed, as it took longer than %v", limit)
	}
	report := fmt.Sprintf("Background task %s has ended after %v: %s\n%s", id, time.Since(began).Round(time.Millisecond), how, out.Text)
	_, _, failed := call.Host.StartTurnStream(ctx, call.Session, api.TurnRequest{
		ID: events.TurnID(events.DerivedID("task-", call.Key)), Input: events.TurnInput{Parts: plugin.Say(events.RoleUser, strings.TrimSpace(report)).Parts},
	})
	switch {
	case failed != nil:
		return fmt.Errorf("%s; report it: %w", how, failed)
	case err != nil || out.Killed || out.Status != 0:
		return fmt.Errorf("%s", how)
	}
	return nil
}

// reportedTasks is the plugin's state: the abandoned tasks of which the model knows.
type reportedTasks struct {
	Tasks []events.Seq `json:"tasks,omitempty"` // sequences of their registration
}

// reportAbandoned lists for the model, once, the tasks that ended with their node.
func (b *background) reportAbandoned(ctx context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
	state, err := in.Host.SnapshotCurrent(ctx)
	if err != nil {
		return nil, err
	}
	var now reportedTasks
	var lost []string
	for i := range state.Tasks {
		t := &state.Tasks[i]
		if t.Producer != ID || t.State != events.TaskFailed || !strings.HasPrefix(t.Summary, "abandoned: ") {
			continue
		}
		now.Tasks = append(now.Tasks, t.Seq)
		if !slices.Contains(b.Load().Tasks, t.Seq) {
			lost = append(lost, string(t.ID))
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	b.Update(func(reported *reportedTasks) { *reported = now })
	note := "These background tasks died with the machine that ran them, and were not run again: " + strings.Join(lost, ", ")
	return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, note))}, nil
}
