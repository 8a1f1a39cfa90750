package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/task"
)

// simTasks is how many ids of tasks clients use, in each session.
const simTasks = 2

// simTask is what the histories say of the last task that had an id.
type simTask struct {
	claim      task.Claim
	again      bool // another worker may run it again
	live       bool
	told       bool // to a client, that it is durable and will run
	ran        int  // times that its body began
	cancelling bool
}

// simTaskJob is a queued run of a task.
type simTaskJob struct {
	session events.SessionID
	id      string
	task    events.TaskID
	seq     events.Seq
	held    bool
}

// simAct is what a worker appends, by the claim that it acts on: its own, or of one that it found gone.
type simAct struct {
	by    events.WorkerID
	claim task.Claim
	own   bool
}

// simTaskName names a task among those of all sessions.
func simTaskName(session events.SessionID, id events.TaskID) string {
	return string(session) + "/" + string(id)
}

// simHost is the state that a process keeps of sessions, and decides on.
type simHost struct {
	w    *world
	held map[events.SessionID]*projector.State
}

func (w *world) newHost() *simHost {
	return &simHost{w: w, held: make(map[events.SessionID]*projector.State)}
}

// load is the state as the process has it, or with all that was appended since.
func (h *simHost) load(id events.SessionID, fresh bool) *projector.State {
	s := h.held[id]
	if s == nil {
		s, fresh = projector.New(id), true
		h.held[id] = s
	}
	if fresh {
		if err := follow.Sync(h.w.ctx, h.w.log, s); err != nil {
			h.w.t.Fatal(err)
		}
	}
	return s
}

// task is a copy of a task's record.
func (h *simHost) task(id events.SessionID, name events.TaskID, fresh bool) (projector.Task, bool) {
	t, ok := h.load(id, fresh).Task(name)
	if !ok {
		return projector.Task{}, false
	}
	return *t, true
}

// decideTask is a decision about a task, and its record as that left it.
func (h *simHost) decideTask(id events.SessionID, name events.TaskID, act simAct, d func(*projector.State) ([]events.Event, error)) (projector.Task, error) {
	err := h.decide(id, act, d)
	rec, _ := h.task(id, name, false)
	return rec, err
}

// decide is what hosts do: a decision on the state at hand, appended there;
// another one on the newest state where that did not do.
func (h *simHost) decide(id events.SessionID, act simAct, d func(*projector.State) ([]events.Event, error)) error {
	for fresh := h.held[id] == nil; ; {
		s := h.load(id, fresh)
		list, err := d(s)
		if (err != nil || len(list) == 0) && !fresh {
			fresh = true
			continue
		}
		if err != nil || len(list) == 0 {
			return err
		}
		c := h.w.commit(id, list...)
		h.w.acts[c.ID] = act
		for i := range list {
			h.w.t.Logf("%s appends %s to %s at %d", orClient(act.by), list[i].Kind, id, s.Seq)
		}
		seq, err := h.w.log.Append(h.w.ctx, c, events.At(s.Seq))
		if errors.As(err, new(*events.ConflictError)) {
			fresh = true
			continue
		}
		if err != nil {
			return err
		}
		if s.Apply(events.Entry{Seq: seq, Commit: c}) != nil { // nothing guards the log: that is for the histories to show
			delete(h.held, id)
		}
		return nil
	}
}

func orClient(by events.WorkerID) events.WorkerID {
	if by == "" {
		return "client"
	}
	return by
}

func (w *world) taskID() events.TaskID {
	return events.TaskID(fmt.Sprintf("k%d", rapid.IntRange(0, simTasks-1).Draw(w.t, "task")))
}

// register is a client that wants a task to run, perhaps once more, and may die
// between the registration and the run's job.
func (w *world) register(*rapid.T) {
	id, reg := w.session(), events.TaskRegistered{Task: w.taskID(), Runner: "r"}
	if rapid.Bool().Draw(w.t, "again") {
		reg.Restart = events.RestartAlways
	}
	rec, err := w.door.decideTask(id, reg.Task, simAct{}, func(s *projector.State) ([]events.Event, error) { return task.Register(s, reg) })
	if err != nil && !errors.Is(err, task.ErrRunning) || rapid.IntRange(0, 3).Draw(w.t, "dies") == 0 {
		return
	}
	w.tellTask(id, &rec)
}

// tellTask puts a registered task's job in the queue, and tells who asked for it.
func (w *world) tellTask(id events.SessionID, rec *projector.Task) {
	w.enqueueTask(id, rec)
	w.check(w.t)
	switch k := w.tasks[simTaskName(id, rec.ID)]; {
	case k == nil || k.claim.Seq < rec.Seq:
		w.t.Fatalf("task %s of %s is not in the history, and clients were told that it is", rec.ID, id)
	case k.claim.Seq == rec.Seq:
		k.told = true
	}
}

// enqueueTask puts a task's job in the queue, where it lives and has none.
func (w *world) enqueueTask(id events.SessionID, t *projector.Task) {
	job, owed := session.TaskJobID(t)
	if owed && !w.covers(id, job) {
		w.jobs = append(w.jobs, &simTaskJob{session: id, id: job, task: t.ID, seq: t.Seq})
	}
}

// covers reports whether a task's job is in the queue.
func (w *world) covers(id events.SessionID, job string) bool {
	return slices.ContainsFunc(w.jobs, func(j *simTaskJob) bool { return j.session == id && j.id == job })
}

// ack takes a task's job out of the queue.
func (w *world) ack(j *simTaskJob) {
	w.jobs = slices.DeleteFunc(w.jobs, func(q *simTaskJob) bool { return q == j })
}

// cancelTask is a client that wants a task to stop, by itself or at once.
func (w *world) cancelTask(*rapid.T) {
	id, name, how := w.session(), w.taskID(), task.RequestCancel
	if rapid.Bool().Draw(w.t, "at_once") {
		how = task.Cancel
	}
	_ = w.door.decide(id, simAct{}, func(s *projector.State) ([]events.Event, error) { return how(s, name, "requested"), nil })
}

// sweepTasks puts a job in the queue for each task that lost its own before it had one.
func (w *world) sweepTasks() {
	for _, id := range slices.Sorted(maps.Keys(w.verified)) {
		s := w.now(id)
		for i := range s.Tasks {
			w.enqueueTask(id, &s.Tasks[i])
		}
	}
}

// noteTasks keeps what a commit says of tasks, and wants it to be right: a
// task ends once, what must run once starts once, and a worker appends only
// while the claim that it acts on is the one that counts.
func (w *world) noteTasks(id events.SessionID, e events.Entry) {
	for i := range e.Commit.Events {
		switch p := e.Commit.Events[i].Payload.(type) {
		case *events.TaskRegistered:
			name := simTaskName(id, p.Task)
			if k := w.tasks[name]; k != nil && k.live {
				w.t.Fatalf("task %s at %d is registered while it lives", name, e.Seq)
			}
			w.tasks[name] = &simTask{claim: task.Claim{Task: p.Task, Seq: e.Seq, Worker: p.Worker}, again: p.Restart == events.RestartAlways, live: true}
		case *events.TaskStarted:
			k := w.actsOn(id, p.Task, e)
			k.claim.Attempt++
			k.claim.Worker = p.Worker
			if p.Attempt != k.claim.Attempt || p.Attempt > 1 && !k.again {
				w.t.Fatalf("task %s of %s at %d starts, attempt %d, want %d, which may repeat: %t", p.Task, id, e.Seq, p.Attempt, k.claim.Attempt, k.again)
			}
		case *events.TaskProgressed:
			w.actsOn(id, p.Task, e)
		case *events.TaskStateChanged:
			w.actsOn(id, p.Task, e)
		case *events.TaskCancelRequested:
			k := w.actsOn(id, p.Task, e)
			if k.cancelling {
				w.t.Fatalf("task %s of %s at %d is to be cancelled twice", p.Task, id, e.Seq)
			}
			k.cancelling = true
		case *events.TaskEnded:
			k := w.actsOn(id, p.Task, e)
			k.live = false
			w.checkEnd(k, p, w.acts[e.Commit.ID])
		}
	}
}

// actsOn is the task that a commit is about: a live one, whose worker is the one that the commit's author believes.
func (w *world) actsOn(id events.SessionID, name events.TaskID, e events.Entry) *simTask {
	k, act := w.tasks[simTaskName(id, name)], w.acts[e.Commit.ID]
	switch {
	case k == nil || !k.live:
		w.t.Fatalf("commit %d of %s is about task %s, which does not live", e.Seq, id, name)
	case act.by == "": // a client, whoever runs it
	case act.claim != k.claim:
		w.t.Fatalf("commit %d of %s: %s acts on %+v, the history has %+v", e.Seq, id, act.by, act.claim, k.claim)
	case act.own && act.by != k.claim.Worker:
		w.t.Fatalf("commit %d of %s: %s acts for %s", e.Seq, id, act.by, k.claim.Worker)
	}
	return k
}

// checkEnd wants a task whose worker is gone to end only where it must not run
// again, with the evidence, or was cancelled.
func (w *world) checkEnd(k *simTask, p *events.TaskEnded, act simAct) {
	if act.by == "" || act.own || p.State == events.TaskCancelled && k.cancelling {
		return
	}
	if want := simGone(k.claim.Worker); k.again || p.State != events.TaskFailed || p.Summary != want {
		w.t.Fatalf("task %+v ends as %s, %q, want %q", *k, p.State, p.Summary, want)
	}
}

func simGone(worker events.WorkerID) string {
	return fmt.Sprintf("abandoned: worker %s is gone", worker)
}

// checkJobs wants a job in the queue for every live task that clients were told of.
func (w *world) checkJobs() {
	for name, k := range w.tasks {
		if k.live && k.told && !slices.ContainsFunc(w.jobs, func(j *simTaskJob) bool {
			return simTaskName(j.session, j.task) == name && j.seq == k.claim.Seq
		}) {
			w.t.Fatalf("task %s %+v lives, and no job covers it", name, k.claim)
		}
	}
}

// checkEnded wants every task to have ended; that none did twice was seen on the way.
func (w *world) checkEnded() {
	if len(w.jobs) > 0 {
		w.t.Fatalf("jobs that never end: %+v", *w.jobs[0])
	}
	for name, k := range w.tasks {
		if k.live {
			w.t.Fatalf("task %s %+v never ended", name, k.claim)
		}
	}
}
