package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// tasks is the number of task ids in each session. No two sessions have the same ids.
const tasks = 3

func (w *world) taskID(id events.SessionID) events.TaskID {
	return events.TaskID(fmt.Sprintf("k-%s-%d", id, rapid.IntRange(0, tasks-1).Draw(w.t, "id")))
}

// tolerated drops the errors after which clients and workers continue.
func (w *world) tolerated(err error) error {
	if err != nil && !errors.Is(err, events.ErrOutcomeUnknown) && !errors.Is(err, api.ErrTaskTaken) && !errors.Is(err, api.ErrTaskRunning) &&
		!errors.Is(err, errRefused) && !errors.Is(err, api.ErrMonitorTask) {
		w.t.Fatal(err)
	}
	return err
}

// register is a client that registers a task, possibly for the second time.
func (w *world) register(*rapid.T) {
	id, h := w.firstSession(), w.anyHost()
	reg := events.TaskRegistered{Task: w.taskID(id), Runner: "r"}
	if rapid.Bool().Draw(w.t, "again") {
		reg.Restart = events.RestartAlways
	}
	hints, seq, err := h.register(id, reg)
	if w.tolerated(err) == nil {
		h.later(append(hints, func() { w.addAcceptedTask(id, reg.Task, seq) })...)
	}
}

// register registers a task. For a live task it only publishes a wake.
func (h *host) register(id events.SessionID, reg events.TaskRegistered) (hints []func(), seq events.Seq, err error) {
	hints, err = h.decide(id, func(s *projector.State) ([]events.Event, error) { return registering(s, reg) })
	if err != nil && !errors.Is(err, api.ErrTaskRunning) {
		return nil, 0, err
	}
	if err != nil {
		hints = h.wakeTask(h.states[id], reg.Task)
	}
	if t, ok := h.states[id].Task(reg.Task); ok {
		seq = t.Seq
	}
	return hints, seq, nil
}

// registering never reuses an id. A transfer that stops halfway would otherwise bring the earlier task of the id back.
func registering(s *projector.State, reg events.TaskRegistered) ([]events.Event, error) {
	if t, ok := s.Task(reg.Task); ok && !t.Live() && t.Of != events.TaskTool {
		return nil, errRefused
	}
	return task.Register(s, reg)
}

// cancelTask is a client that cancels a task, softly or at once.
func (w *world) cancelTask(*rapid.T) {
	id, h, how := w.anySession(), w.anyHost(), task.RequestCancel
	if rapid.Bool().Draw(w.t, "at_once") {
		how = task.Cancel
	}
	var list []events.TaskID
	for _, t := range w.state(id).Tasks {
		if t.Live() {
			list = append(list, t.ID)
		}
	}
	if name := pick(w, list, "task"); name != "" {
		hints, err := h.decide(id, func(s *projector.State) ([]events.Event, error) { return how(s, name, "requested"), nil })
		if w.tolerated(err) == nil {
			h.later(hints...)
		}
	}
}

// startMonitor is a client that starts a monitor whose lines become turns.
func (w *world) startMonitor(*rapid.T) {
	id, h := w.firstSession(), w.anyHost()
	spec := events.MonitorSpec{ID: "m", Command: "c", Wake: events.WakeQueueTurn, RestartOnRestore: rapid.Bool().Draw(w.t, "again")}
	hints, err := h.decide(id, func(s *projector.State) ([]events.Event, error) {
		if s.Feed.Sequence > 2 {
			return nil, errRefused
		}
		return task.StartMonitor(s, spec)
	})
	if w.tolerated(err) == nil {
		h.later(hints...)
	}
}

// remote is a call that runs as a task.
type remote struct {
	turn      events.TurnID
	iteration int64
	index     int64
	tool      string
	effect    events.EffectID
}

// registersTask registers the task of a call.
func (e *effect) registersTask() ([]func(), error) {
	reg := events.TaskRegistered{
		Task: task.CallTask(e.r.session, e.ID), Of: events.TaskTool, Producer: e.call.Tool, Runner: task.ToolRunner, Args: []byte(strconv.Quote(string(e.ID))),
	}
	if e.call.Tool == toolFar {
		reg.Restart = events.RestartAlways
	}
	hints, _, err := e.host.register(e.r.session, reg)
	return hints, e.r.w.tolerated(err)
}

// remoteOf is the call of a task; false where the task has none.
func remoteOf(t *projector.Task) (c remote, ok bool) {
	if t.Of != events.TaskTool || t.Runner != task.ToolRunner {
		return c, false
	}
	effect, _ := strconv.Unquote(string(t.Args))
	parts := strings.Split(effect, "/")
	if len(parts) != 3 {
		return remote{}, true // an ended task has no arguments
	}
	c = remote{turn: events.TurnID(parts[0]), tool: t.Producer, effect: events.EffectID(effect)}
	c.iteration, _ = strconv.ParseInt(parts[1], 10, 64)
	c.index, _ = strconv.ParseInt(parts[2], 10, 64)
	return c, true
}

// awaited reports whether a turn waits for the call.
func (c *remote) awaited(t *projector.Turn) bool {
	return t != nil && t.ID == c.turn && !t.Cancelled && t.Iteration == c.iteration && c.index < int64(len(t.Calls)) &&
		!t.Calls[c.index].Done && t.Resolution(c.effect) == nil
}

// sweepTasks publishes the missing wakes of live tasks.
func (w *world) sweepTasks(s *projector.State) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if key := (wakeKey{s.Session, t.ID}); task.NeedsWorker(t) && !w.queue.has(key) {
			w.publish(key, "")
		}
	}
}

// awaits is the call of the running turn for which the task runs.
func awaits(s *projector.State, name events.TaskID) (c remote, ok bool) {
	t := s.Turn()
	for i := 0; t != nil && i < len(t.Calls); i++ {
		if effect := turn.ToolEffect(t.ID, t.Iteration, int64(i)); task.CallTask(s.Session, effect) == name {
			return remote{t.ID, t.Iteration, int64(i), t.Calls[i].Tool, effect}, true
		}
	}
	return c, false
}
