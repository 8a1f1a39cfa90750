package sim

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// taskName identifies a task by its session and id.
type taskName struct {
	session events.SessionID
	task    events.TaskID
}

// taskFacts are the facts of a history about the newest task of an id.
type taskFacts struct {
	claim      task.Claim
	made       events.Millis
	again      bool // it may run again on another worker
	live       bool
	cancelling bool
	stops      bool // its copy was to stop before it was registered again
	ran        *int // starts of its body, in any session
}

// act is the claim on which a worker appends: its own, or that of a dead worker.
type act struct {
	by    events.WorkerID
	claim task.Claim
	own   bool
}

// recordTasks records the task events of a commit, and checks them: a task ends once, a task that must run once starts
// once, a worker appends only while the claim that it acts on is current, and a request to stop is not lost.
func (w *world) recordTasks(h *history, e events.Entry) {
	for i := range e.Commit.Events {
		switch p := e.Commit.Events[i].Payload.(type) {
		case *events.TaskRegistered:
			w.recordRegistered(h, e, p)
		case *events.TaskTransferred:
			for _, id := range p.Tasks {
				w.tasks[taskName{h.id, id}].live = false
			}
		case *events.TaskStarted:
			k := w.actsOn(h, p.Task, e)
			k.claim.Attempt++
			k.claim.Worker = p.Worker
			if p.Attempt != k.claim.Attempt || p.Attempt > 1 && !k.again {
				w.t.Fatalf("task %s of %s at %d starts, attempt %d, want %d, which may repeat: %t", p.Task, h.id, e.Seq, p.Attempt, k.claim.Attempt, k.again)
			}
		case *events.TaskProgressed:
			w.actsOn(h, p.Task, e)
		case *events.TaskStateChanged:
			w.actsOn(h, p.Task, e)
		case *events.TaskCancelRequested:
			k := w.actsOn(h, p.Task, e)
			if k.cancelling {
				w.t.Fatalf("task %s of %s at %d is to be cancelled twice", p.Task, h.id, e.Seq)
			}
			k.cancelling = true
		case *events.TaskEnded:
			k := w.actsOn(h, p.Task, e)
			k.live = false
			w.checkEnd(k, p, w.acts[e.Commit.ID])
		}
	}
	for i := range e.Commit.Events {
		if p, ok := e.Commit.Events[i].Payload.(*events.TaskRegistered); ok {
			if k := w.tasks[taskName{h.id, p.Task}]; k.stops && k.live && !k.cancelling {
				w.t.Fatalf("task %s of %s at %d was to stop, and is registered again without that", p.Task, h.id, e.Seq)
			}
		}
	}
}

func (w *world) recordRegistered(h *history, e events.Entry, p *events.TaskRegistered) {
	name := taskName{h.id, p.Task}
	made := e.Commit.At
	if p.From != "" {
		made = p.Created
	}
	old := w.tasks[name]
	if old != nil && p.From == "" {
		made = max(made, old.made+1)
	}
	if old != nil && old.live && old.made != made {
		w.t.Fatalf("task %+v at %d is registered while it lives", name, e.Seq)
	}
	k := &taskFacts{
		claim: task.Claim{Task: p.Task, Seq: e.Seq, Worker: p.Worker, Attempt: p.Attempt}, made: made,
		again: p.Restart == events.RestartAlways, live: !p.State.Terminal(), cancelling: p.State == events.TaskCancelling, ran: new(int),
	}
	k.stops = old != nil && old.live && old.cancelling && old.made == made
	if from := w.tasks[taskName{p.From, p.Task}]; from != nil && from.made == made {
		k.ran = from.ran
	}
	w.tasks[name] = k
}

// actsOn is the task of a commit. It must be live, and its claim the one that the commit's author acts on.
func (w *world) actsOn(h *history, name events.TaskID, e events.Entry) *taskFacts {
	k, by := w.tasks[taskName{h.id, name}], w.acts[e.Commit.ID]
	switch {
	case k == nil || !k.live:
		w.t.Fatalf("commit %d of %s is about task %s, which does not live", e.Seq, h.id, name)
	case by.by == "": // a client may act on any claim
	case by.claim != k.claim:
		w.t.Fatalf("commit %d of %s: %s acts on %+v, the history has %+v", e.Seq, h.id, by.by, by.claim, k.claim)
	case by.own && by.by != k.claim.Worker:
		w.t.Fatalf("commit %d of %s: %s acts for %s", e.Seq, h.id, by.by, k.claim.Worker)
	}
	return k
}

// checkEnd checks the end of a task whose worker is dead: only a task that must not run again may end, with the
// evidence, or a cancelled one.
func (w *world) checkEnd(k *taskFacts, p *events.TaskEnded, by act) {
	if by.by == "" || by.own || p.State == events.TaskCancelled && k.cancelling {
		return
	}
	if want := goneText(k.claim.Worker); k.again && k.claim.Attempt < attempts || p.State != events.TaskFailed || p.Summary != want {
		w.t.Fatalf("task %+v ends as %s, %q, want %q", *k, p.State, p.Summary, want)
	}
}

func goneText(worker events.WorkerID) string {
	return fmt.Sprintf("abandoned: worker %s is gone", worker)
}

// taskRuns checks that a task that must run once has not run before.
func (w *world) taskRuns(r *taskRun) {
	w.check(w.t)
	k := w.tasks[taskName{r.session, r.task}]
	if k == nil || k.claim.Seq != r.claim.Seq {
		return // it was transferred
	}
	if *k.ran++; *k.ran > 1 && !k.again {
		w.t.Fatalf("task %s of %s, which must run once, ran again", r.task, r.session)
	}
}

// addAcceptedTask records a response to a client: the task is registered.
func (w *world) addAcceptedTask(id events.SessionID, name events.TaskID, seq events.Seq) {
	w.check(w.t)
	if k := w.tasks[taskName{id, name}]; k == nil || k.claim.Seq < seq {
		w.t.Fatalf("task %s of %s is not in the history, and a client was told that it is", name, id)
	}
}

// tasksDone reports whether every task has ended. recordTasks checks that none ends twice.
func (w *world) tasksDone() bool {
	w.check(w.t)
	for _, k := range w.tasks {
		if k.live {
			return false
		}
	}
	return true
}
