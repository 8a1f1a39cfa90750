package projector

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// KeptTasks limits the finished tasks in the state. Beyond it, the task that ended first is dropped.
const KeptTasks = 256

// Task is a background task of the session's registry. Clones share the list of tasks: the fold replaces it and never
// changes it.
type Task struct {
	ID          events.TaskID        `msgpack:"i"`
	Of          events.TaskKind      `msgpack:"k,omitempty"`
	Producer    string               `msgpack:"p,omitempty"`
	Child       events.SessionID     `msgpack:"c,omitempty"`
	Parent      events.TaskID        `msgpack:"a,omitempty"`
	Cancel      events.CancelPolicy  `msgpack:"x,omitempty"`
	Close       events.ClosePolicy   `msgpack:"l,omitempty"`
	Restart     events.RestartPolicy `msgpack:"r,omitempty"`
	Runner      string               `msgpack:"n,omitempty"`  // empty for a function of Worker, or a program outside
	Args        []byte               `msgpack:"j,omitempty"`  // of live tasks
	Callers     []string             `msgpack:"cl,omitempty"` // authenticated callers on whose behalf it runs
	Trace       events.TraceParent   `msgpack:"tp,omitempty"` // client's span of the registration
	State       events.TaskState     `msgpack:"s,omitempty"`
	Worker      events.WorkerID      `msgpack:"w,omitempty"`  // current or last worker
	Attempt     int64                `msgpack:"e,omitempty"`  // 0 before the first claim
	Starts      int64                `msgpack:"b,omitempty"`  // consecutive task.started events without progress, each less than a minute after the one before
	StartedAt   events.Millis        `msgpack:"g,omitempty"`  // time of the last claim
	Seq         events.Seq           `msgpack:"q"`            // of its registration; distinguishes it from other tasks with this id
	From        events.SessionID     `msgpack:"f,omitempty"`  // session of origin, if transferred
	To          events.SessionID     `msgpack:"o,omitempty"`  // new session, if transferred: then the task is no longer live here
	Leaves      events.SessionID     `msgpack:"lv,omitempty"` // target of a transfer that is due because the session closed
	Message     string               `msgpack:"m,omitempty"`  // last progress message
	Reason      string               `msgpack:"z,omitempty"`  // of the requested cancel
	Summary     string               `msgpack:"y,omitempty"`  // result text
	PassedOn    bool                 `msgpack:"pa,omitempty"` // Child has received the cancel
	Hidden      bool                 `msgpack:"h,omitempty"`  // not in lists, cannot be cancelled
	Label       string               `msgpack:"lb,omitempty"` // of a hidden task
	CreatedAt   events.Millis        `msgpack:"ca"`
	UpdatedAt   events.Millis        `msgpack:"ua"`
	CompletedAt events.Millis        `msgpack:"da,omitempty"`
}

// Live reports whether the task belongs to this session and has not ended.
func (t *Task) Live() bool { return t.To == "" && !t.State.Terminal() }

// LeavePending reports whether the session closed and the target session has not accepted the task yet.
func (t *Task) LeavePending() bool { return t.Live() && t.Leaves != "" }

// PassOnPending reports whether the task was cancelled and the session that does its work has not received the cancel yet.
func (t *Task) PassOnPending() bool {
	cancelled := t.State == events.TaskCancelling || t.State == events.TaskCancelled
	return t.To == "" && t.Child != "" && t.Runner == "" && t.Worker == "" && cancelled && !t.PassedOn
}

// Unfinished reports whether the task is live, or its cancel must still be passed on.
func (t *Task) Unfinished() bool { return t.Live() || t.PassOnPending() }

// Task finds a task by id, including ended ones. The caller must not change it.
func (s *State) Task(id events.TaskID) (*Task, bool) {
	x := findFirst(s.Tasks, func(x *Task) bool { return x.ID == id })
	return x, x != nil
}

func (s *State) applyTaskRegistered(p *events.TaskRegistered, at events.Millis) {
	old, ok := s.Task(p.Task)
	if ok && old.Live() && (p.From == "" || old.From != p.From) {
		return
	}
	t := Task{
		ID: p.Task, Of: p.Of, Producer: p.Producer, Child: p.Child, Parent: p.Parent, Cancel: p.Cancel, Close: p.Close,
		Restart: p.Restart, Runner: p.Runner, Args: p.Args, Callers: p.Callers, Trace: p.Trace, State: p.State, Worker: p.Worker, Attempt: p.Attempt,
		Seq: s.Seq, From: p.From, Summary: p.Summary, CreatedAt: at, UpdatedAt: at,
	}
	switch {
	case p.Created != 0:
		t.CreatedAt = p.Created
	case ok: // the time distinguishes it from the earlier task of this id, also in a session with a copy of that one
		t.CreatedAt = max(at, old.CreatedAt+1)
	}
	if !t.Live() {
		t.CompletedAt, t.Args = at, nil
	}
	tasks := slices.DeleteFunc(slices.Clone(s.Tasks), func(o Task) bool { return o.ID == p.Task })
	i := len(tasks)
	for i > 0 && tasks[i-1].CreatedAt > t.CreatedAt {
		i--
	}
	s.Tasks = keptTasks(slices.Insert(tasks, i, t))
}

// keptTasks drops one task beyond KeptTasks. It changes the list.
func keptTasks(tasks []Task) []Task {
	ended := 0
	oldest := -1
	for i := range tasks {
		if tasks[i].Unfinished() {
			continue
		}
		if ended++; oldest < 0 || tasks[i].CompletedAt < tasks[oldest].CompletedAt {
			oldest = i
		}
	}
	if ended <= KeptTasks {
		return tasks
	}
	return slices.Delete(tasks, oldest, oldest+1)
}

// changeTask changes a live task in a new list.
func (s *State) changeTask(id events.TaskID, at events.Millis, change func(*Task)) {
	i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.ID == id && t.Live() })
	if i < 0 {
		return
	}
	s.Tasks = slices.Clone(s.Tasks)
	t := &s.Tasks[i]
	change(t)
	t.UpdatedAt = at
	if !t.Live() {
		t.CompletedAt, t.Args = at, nil
		s.Tasks = keptTasks(s.Tasks)
	}
}

// steadyTask is the run time in ms after which the death of a task's worker does not count as a failed start.
const steadyTask = 60_000

func (s *State) applyTaskStarted(p *events.TaskStarted, at events.Millis) {
	s.changeTask(p.Task, at, func(t *Task) {
		if p.Attempt <= t.Attempt {
			return
		}
		if at-t.StartedAt > steadyTask {
			t.Starts = 0
		}
		t.Worker, t.Attempt, t.Starts, t.StartedAt = p.Worker, p.Attempt, t.Starts+1, at
		if t.State != events.TaskCancelling {
			t.State = events.TaskRunning
		}
	})
}

func (s *State) applyTaskState(p *events.TaskStateChanged, at events.Millis) {
	s.changeTask(p.Task, at, func(t *Task) {
		t.Starts = 0
		if t.State != events.TaskCancelling {
			t.State = p.State
		}
	})
}

func (s *State) applyTaskProgressed(p *events.TaskProgressed, at events.Millis) {
	s.changeTask(p.Task, at, func(t *Task) { t.Message, t.Starts = p.Message, 0 })
}

func (s *State) applyTaskCancel(p *events.TaskCancelRequested, at events.Millis) {
	s.changeTask(p.Task, at, func(t *Task) {
		if t.State != events.TaskCancelling {
			t.State, t.Reason = events.TaskCancelling, p.Reason
		}
	})
}

func (s *State) applyTaskHidden(p *events.TaskHidden, at events.Millis) {
	s.changeTask(p.Task, at, func(t *Task) { t.Hidden, t.Label = true, p.Label })
}

func (s *State) applyTaskEnded(p *events.TaskEnded, at events.Millis) {
	if t, ok := s.Task(p.Task); ok && t.Live() && t.Hidden && p.State == events.TaskCompleted {
		s.applyTaskRemoved(&events.TaskRemoved{Task: p.Task}) // hidden and completed: no longer needed
		return
	}
	s.changeTask(p.Task, at, func(t *Task) { t.State, t.Summary = p.State, p.Summary })
}

func (s *State) applyTaskPassedOn(p *events.TaskPassedOn) {
	i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.ID == p.Task && t.To == "" })
	if i < 0 {
		return
	}
	s.Tasks = slices.Clone(s.Tasks)
	s.Tasks[i].PassedOn = true
	s.Tasks = keptTasks(s.Tasks)
}

func (s *State) applyTaskRemoved(p *events.TaskRemoved) {
	s.Tasks = slices.DeleteFunc(slices.Clone(s.Tasks), func(t Task) bool { return t.ID == p.Task })
}

// applyTaskTransferred keeps the tasks with their new session, so that their workers can follow.
func (s *State) applyTaskTransferred(p *events.TaskTransferred, at events.Millis) {
	tasks := slices.Clone(s.Tasks)
	for i := range tasks {
		if t := &tasks[i]; slices.Contains(p.Tasks, t.ID) && t.To == "" {
			t.To, t.Args, t.UpdatedAt, t.CompletedAt = p.To, nil, at, at
		}
	}
	for range p.Tasks {
		tasks = keptTasks(tasks)
	}
	s.Tasks = tasks
}

// checkTasks checks that ids are unique, tasks are in order of creation, and not too many have ended.
func (s *State) checkTasks() []error {
	var errs []error
	ids := make(map[events.TaskID]bool)
	ended := 0
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if ids[t.ID] {
			errs = append(errs, fmt.Errorf("task %s occurs twice", t.ID))
		}
		ids[t.ID] = true
		if i > 0 && s.Tasks[i-1].CreatedAt > t.CreatedAt {
			errs = append(errs, fmt.Errorf("task %s is out of order", t.ID))
		}
		if !t.Unfinished() {
			ended++
		}
	}
	if ended > KeptTasks {
		errs = append(errs, fmt.Errorf("%d ended tasks are kept, want at most %d", ended, KeptTasks))
	}
	return errs
}
