package projector

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// KeptTasks is how many tasks that live no more, and owe nothing, the state keeps. Beyond it the one that ended first is dropped.
const KeptTasks = 256

// Task is one background task of the session's registry. The list of them is
// shared between clones: it is replaced, never changed.
type Task struct {
	ID          events.TaskID        `msgpack:"i"`
	Of          events.TaskKind      `msgpack:"k,omitempty"`
	Producer    string               `msgpack:"p,omitempty"`
	Child       events.SessionID     `msgpack:"c,omitempty"`
	Parent      events.TaskID        `msgpack:"a,omitempty"`
	Cancel      events.CancelPolicy  `msgpack:"x,omitempty"`
	Close       events.ClosePolicy   `msgpack:"l,omitempty"`
	Restart     events.RestartPolicy `msgpack:"r,omitempty"`
	Runner      string               `msgpack:"n,omitempty"`  // empty: a closure of Worker, or somebody outside
	Args        []byte               `msgpack:"j,omitempty"`  // of live ones
	Trace       events.TraceParent   `msgpack:"tp,omitempty"` // the span that it was registered under
	State       events.TaskState     `msgpack:"s,omitempty"`
	Worker      events.WorkerID      `msgpack:"w,omitempty"`  // who runs it, or ran it last
	Attempt     int64                `msgpack:"e,omitempty"`  // 0 before a worker claimed it
	Starts      int64                `msgpack:"b,omitempty"`  // task.started in a row without progress, none of which was a minute before the next
	StartedAt   events.Millis        `msgpack:"g,omitempty"`  // when it was claimed last
	Seq         events.Seq           `msgpack:"q"`            // of its registration: tells it from others that had the id
	From        events.SessionID     `msgpack:"f,omitempty"`  // transferred from there
	To          events.SessionID     `msgpack:"o,omitempty"`  // transferred to there: it lives here no more
	Leaves      events.SessionID     `msgpack:"lv,omitempty"` // its session closed, and it is to go there
	Message     string               `msgpack:"m,omitempty"`  // its last progress
	Reason      string               `msgpack:"z,omitempty"`  // of the cancel that was requested
	Summary     string               `msgpack:"y,omitempty"`  // what it came to
	PassedOn    bool                 `msgpack:"pa,omitempty"` // its cancel has reached Child
	Hidden      bool                 `msgpack:"h,omitempty"`  // never listed, nor cancelled
	Label       string               `msgpack:"lb,omitempty"` // of a hidden one
	CreatedAt   events.Millis        `msgpack:"ca"`
	UpdatedAt   events.Millis        `msgpack:"ua"`
	CompletedAt events.Millis        `msgpack:"da,omitempty"`
}

// Live reports whether the task is this session's and has not ended.
func (t *Task) Live() bool { return t.To == "" && !t.State.Terminal() }

// LeavePending reports whether the task's session closed, and the session that it is to go on in has yet to take it.
func (t *Task) LeavePending() bool { return t.Live() && t.Leaves != "" }

// Passing reports whether the task was cancelled, or asked to stop, and the session that does its work has yet to hear of it.
func (t *Task) Passing() bool {
	cancelled := t.State == events.TaskCancelling || t.State == events.TaskCancelled
	return t.To == "" && t.Child != "" && t.Runner == "" && t.Worker == "" && cancelled && !t.PassedOn
}

// Owing reports whether the task lives, or its end has yet to be passed on.
func (t *Task) Owing() bool { return t.Live() || t.Passing() }

// Task finds a task by id, one that lives no more among them. It must not be changed.
func (s *State) Task(id events.TaskID) (*Task, bool) {
	x := find(s.Tasks, func(x *Task) bool { return x.ID == id })
	return x, x != nil
}

func (s *State) applyTaskRegistered(p *events.TaskRegistered, at events.Millis) {
	old, ok := s.Task(p.Task)
	if ok && old.Live() && (p.From == "" || old.From != p.From) {
		return
	}
	t := Task{
		ID: p.Task, Of: p.Of, Producer: p.Producer, Child: p.Child, Parent: p.Parent, Cancel: p.Cancel, Close: p.Close,
		Restart: p.Restart, Runner: p.Runner, Args: p.Args, Trace: p.Trace, State: p.State, Worker: p.Worker, Attempt: p.Attempt,
		Seq: s.Seq, From: p.From, Summary: p.Summary, CreatedAt: at, UpdatedAt: at,
	}
	switch {
	case p.Created != 0:
		t.CreatedAt = p.Created
	case ok: // the time tells a task from the one before of its id, also in a session that has a copy of that
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

// keptTasks drops, of a list of its own, what is more than KeptTasks.
func keptTasks(tasks []Task) []Task {
	ended := 0
	oldest := -1
	for i := range tasks {
		if tasks[i].Owing() {
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

// changeTask changes a live task in a list of its own.
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

// steadyTask is how long a task must have run for its worker's death not to count, in ms.
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
		s.applyTaskRemoved(&events.TaskRemoved{Task: p.Task}) // nothing asks for it any more
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

// applyTaskTransferred leaves behind where the tasks went, so that who runs them can follow.
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

// checkTasks: an id stands once, in order of creation, and not too many have ended.
func (s *State) checkTasks() []error {
	var errs []error
	ids := make(map[events.TaskID]bool)
	ended := 0
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if ids[t.ID] {
			errs = append(errs, fmt.Errorf("task %s stands twice", t.ID))
		}
		ids[t.ID] = true
		if i > 0 && s.Tasks[i-1].CreatedAt > t.CreatedAt {
			errs = append(errs, fmt.Errorf("task %s is out of order", t.ID))
		}
		if !t.Owing() {
			ended++
		}
	}
	if ended > KeptTasks {
		errs = append(errs, fmt.Errorf("%d ended tasks are kept, want at most %d", ended, KeptTasks))
	}
	return errs
}
