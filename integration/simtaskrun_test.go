package integration

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// simTaskRun is a node's work on one job of a task: it looks, claims, runs and records.
type simTaskRun struct {
	session  events.SessionID
	task     events.TaskID
	job      *simTaskJob // nil: somebody else has a newer delivery, or it was acked
	do       func() (over bool)
	claim    task.Claim
	again    bool
	local    bool // a closure of its node
	reserved bool // the node answers for it: it is about to be listed
	listed   bool // the node answers for it, and hands it deliveries of its job
	quiet    bool // its node does not answer

	mail  []*simTaskJob
	over  bool // the history owes it nothing any more
	lost  bool // another worker has the task
	asked bool
	cause string // that its context ended with
	ended string // how its body ended, until that is recorded
}

// What ends the context of a task's body, and what the body comes to.
const (
	simCancelled  = "cancelled"
	simSuperseded = "superseded"
	simOutOfTouch = "was out of touch"
	simStopped    = "stopped"
	simDone       = "done"
	simFailed     = "failed"
)

// takeTask takes a task's job that nobody holds. The node's run of it gets it, if there is one.
func (n *simNode) takeTask() {
	i := slices.IndexFunc(n.w.jobs, func(j *simTaskJob) bool { return !j.held })
	if i < 0 {
		return
	}
	j := n.w.jobs[i]
	j.held = true
	for _, r := range n.tasks {
		if r.listed && r.session == j.session && r.task == j.task && r.claim.Seq == j.seq {
			r.mail = append(r.mail, j)
			return
		}
	}
	r := &simTaskRun{session: j.session, task: j.task, job: j}
	r.do = func() bool { return n.lookAtJob(r) }
	n.tasks = append(n.tasks, r)
}

// spawn registers a task whose body is a closure of the node, and runs it.
func (n *simNode) spawn(*rapid.T) {
	r := &simTaskRun{session: n.w.session(), task: n.w.taskID(), local: true, reserved: true}
	r.do = func() bool { return n.registerClosure(r) }
	n.tasks = append(n.tasks, r)
}

func (n *simNode) registerClosure(r *simTaskRun) (over bool) {
	reg := events.TaskRegistered{Task: r.task, Worker: n.id, State: events.TaskRunning}
	rec, err := n.host.decideTask(r.session, r.task, simAct{}, func(s *projector.State) ([]events.Event, error) { return task.Register(s, reg) })
	switch {
	case errors.Is(err, task.ErrRunning):
		n.w.tellTask(r.session, &rec)
		return true
	case n.tolerate(err) != nil:
		return true
	}
	r.do = func() bool {
		n.w.tellTask(r.session, &rec)
		return n.launch(r, &rec)
	}
	return false
}

// workTasks is a while in which a node works on tasks.
func (n *simNode) workTasks(t *rapid.T) {
	for range rapid.IntRange(1, 8).Draw(t, "rounds") {
		n.takeTask()
		n.stepTask(t)
	}
}

// stepTask lets one of the node's runs do the next thing.
func (n *simNode) stepTask(t *rapid.T) {
	if r := n.pickTask(t); r != nil && r.do() {
		n.tasks = slices.DeleteFunc(n.tasks, func(have *simTaskRun) bool { return have == r })
		r.unread()
	}
}

func (n *simNode) pickTask(t *rapid.T) *simTaskRun {
	switch len(n.tasks) {
	case 0:
		return nil
	case 1:
		return n.tasks[0]
	}
	return n.tasks[rapid.IntRange(0, len(n.tasks)-1).Draw(t, "task_run")]
}

// quietTask lets the others believe that a run is gone, while it goes on.
func (n *simNode) quietTask(t *rapid.T) {
	if r := n.pickTask(t); r != nil {
		r.quiet = true
		r.giveBack()
	}
}

// drop is the end of a run with its process.
func (r *simTaskRun) drop() {
	r.giveBack()
	r.unread()
}

// unread lets the queue have the deliveries that a run never came to.
func (r *simTaskRun) unread() {
	for _, j := range r.mail {
		j.held = false
	}
}

func (r *simTaskRun) giveBack() bool {
	if r.job != nil {
		r.job.held = false
	}
	return true
}

// lookAtJob decides what to do about a job on the newest state.
func (n *simNode) lookAtJob(r *simTaskRun) (over bool) {
	rec, ok := n.host.task(r.session, r.task, true)
	seen := task.ClaimOf(&rec)
	gone := simAct{by: n.id, claim: seen}
	switch {
	case !ok, rec.Seq != r.job.seq, !rec.Live():
		n.w.ack(r.job)
		return true
	case rec.Attempt == 0 && rec.Runner != "":
		r.do = func() bool { return n.claimTask(r, seen) }
	case n.w.answers(n, rec.Worker, r):
		return r.giveBack()
	case rec.State == events.TaskCancelling:
		r.do = func() bool {
			return n.endTask(r, gone, func(s *projector.State) ([]events.Event, error) {
				return task.While(s, seen, func() []events.Event { return task.Cancel(s, r.task, "requested by host") })
			})
		}
	case rec.Restart == events.RestartAlways && rec.Runner != "":
		r.do = func() bool { return n.claimTask(r, seen) }
	default:
		r.do = func() bool {
			return n.endTask(r, gone, func(s *projector.State) ([]events.Event, error) { return task.Abandon(s, seen, simGone(rec.Worker)) })
		}
	}
	return false
}

// answers reports whether a worker says that it runs a task. It may be the one that asks.
func (w *world) answers(asks *simNode, worker events.WorkerID, about *simTaskRun) bool {
	for _, n := range w.nodes {
		if n.id == worker {
			return slices.ContainsFunc(n.tasks, func(r *simTaskRun) bool {
				return r.session == about.session && r.task == about.task && (r.listed || r.reserved) && (n == asks || !r.quiet)
			})
		}
	}
	return false
}

// endTask ends a task whose worker is gone.
func (n *simNode) endTask(r *simTaskRun, act simAct, d func(*projector.State) ([]events.Event, error)) (over bool) {
	if n.tolerate(n.host.decide(r.session, act, d)) != nil {
		return r.giveBack()
	}
	n.w.ack(r.job)
	return true
}

// tolerate lets pass what a worker meets and goes on after.
func (n *simNode) tolerate(err error) error {
	if err != nil && !errors.Is(err, events.ErrOutcomeUnknown) && !errors.Is(err, task.ErrTaken) {
		n.w.t.Fatal(err)
	}
	return err
}

// claimTask claims a task on top of the claim that was seen.
func (n *simNode) claimTask(r *simTaskRun, seen task.Claim) (over bool) {
	r.reserved = true
	rec, err := n.host.decideTask(r.session, r.task, simAct{by: n.id, claim: seen}, func(s *projector.State) ([]events.Event, error) {
		return task.Start(s, seen, n.id)
	})
	if n.tolerate(err) != nil {
		return r.giveBack()
	}
	r.do = func() bool { return n.launch(r, &rec) }
	return false
}

// launch starts the body of a task that was claimed.
func (n *simNode) launch(r *simTaskRun, rec *projector.Task) (over bool) {
	for _, old := range n.tasks {
		old.listed = old.listed && (old.session != r.session || old.task != r.task)
	}
	r.claim, r.again, r.reserved, r.listed = task.ClaimOf(rec), rec.Restart == events.RestartAlways, false, true
	n.w.check(n.w.t)
	if k := n.w.tasks[simTaskName(r.session, r.task)]; k.claim.Seq == rec.Seq {
		if k.ran++; k.ran > 1 && !k.again {
			n.w.t.Fatalf("task %s of %s, which must run once, ran again", r.task, r.session)
		}
	}
	r.do = func() bool { return n.runTask(r) }
	return false
}

// runTask lets the body or its supervisor do something.
func (n *simNode) runTask(r *simTaskRun) (over bool) {
	switch {
	case r.ended != "":
		return n.finishTask(r)
	case n.w.settling:
		r.ended = simDone
		return false
	}
	does := []string{"look", "says", "waits", "ends", "holds"}
	if len(r.mail) == 0 {
		does = does[:4]
	}
	switch rapid.SampledFrom(does).Draw(n.w.t, "body") {
	case "holds":
		r.hold(n.w, r.mail[0])
		r.mail = r.mail[1:]
	case "look":
		n.lookAtTask(r)
	case "says":
		_ = n.record(r, func(s *projector.State) []events.Event { return task.Progress(s, r.task, "half of it") })
	case "waits":
		_ = n.record(r, func(s *projector.State) []events.Event { return task.Transition(s, r.task, events.TaskWaiting) })
	case "ends":
		if r.quiet && !r.local {
			r.stop(simOutOfTouch)
		} else if rapid.IntRange(0, 3).Draw(n.w.t, "stops") == 0 {
			r.stop(simStopped)
		}
		r.ended = rapid.SampledFrom([]string{simDone, simFailed}).Draw(n.w.t, "ends")
	}
	return false
}

// record appends what a run decides while the claim is its own.
func (n *simNode) record(r *simTaskRun, d func(*projector.State) []events.Event) error {
	act := simAct{by: n.id, claim: r.claim, own: true}
	return n.tolerate(n.host.decide(r.session, act, func(s *projector.State) ([]events.Event, error) {
		return task.While(s, r.claim, func() []events.Event { return d(s) })
	}))
}

// stop ends the body's context; the first cause counts.
func (r *simTaskRun) stop(cause string) {
	if r.cause == "" {
		r.cause = cause
	}
}

// hold takes a delivery of the job.
func (r *simTaskRun) hold(w *world, j *simTaskJob) {
	switch {
	case r.lost:
		j.held = false
	case r.over:
		w.ack(j)
	default:
		r.job, r.quiet = j, false
	}
}

// settleTask acks the job: nothing is owed any more.
func (n *simNode) settleTask(r *simTaskRun) {
	r.over = true
	if r.job != nil {
		n.w.ack(r.job)
		r.job = nil
	}
}

// lookAtTask compares a run with the history.
func (n *simNode) lookAtTask(r *simTaskRun) {
	if r.over {
		return
	}
	rec, ok := n.host.task(r.session, r.task, true)
	switch {
	case !ok, rec.Seq != r.claim.Seq:
		n.settleTask(r)
	case !rec.Live():
		n.settleTask(r)
		r.stop(simCancelled)
	case rec.Worker != r.claim.Worker || rec.Attempt != r.claim.Attempt:
		r.giveBack() // unless somebody holds a newer delivery, the queue will miss this one
		r.over, r.lost, r.listed, r.job = true, true, false, nil
		r.stop(simSuperseded)
	case rec.State == events.TaskCancelling:
		r.asked = true
		r.stop(simCancelled)
	}
}

// finishTask records what a body came to.
func (n *simNode) finishTask(r *simTaskRun) (over bool) {
	gone := r.cause == simOutOfTouch || r.cause == simStopped
	switch {
	case r.over:
		return true
	case gone && r.again:
		return r.giveBack()
	}
	state, summary := r.endState(), r.ended
	if gone && r.ended != simDone {
		state, summary = events.TaskFailed, "abandoned: worker "+string(n.id)+" "+r.cause
	}
	err := n.record(r, func(s *projector.State) []events.Event { return task.Complete(s, r.task, state, summary) })
	switch {
	case err == nil:
		n.settleTask(r)
		return true
	case errors.Is(err, task.ErrTaken):
		if n.lookAtTask(r); !r.over {
			n.w.t.Fatalf("claim %+v is taken, and the history has it", r.claim)
		}
	}
	return false // unknown: once more
}

func (r *simTaskRun) endState() events.TaskState {
	switch {
	case r.ended == simDone:
		return events.TaskCompleted
	case r.asked:
		return events.TaskCancelled
	}
	return events.TaskFailed
}
