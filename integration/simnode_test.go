package integration

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// simNode is a process that runs turns. What it keeps is gone when it is restarted.
type simNode struct {
	w    *world
	id   events.WorkerID
	runs []*simRun

	host  *simHost // for tasks
	tasks []*simTaskRun
}

// simRun is a node's work on one job.
type simRun struct {
	job     *simJob
	state   *projector.State
	claimed bool
	covered bool // a new command is in the queue
	flights []simFlight
	mail    []turn.Input
	sent    events.TurnID // the turn whose command this run put in the queue of its branch
}

// simFlight is an effect on its way.
type simFlight struct {
	effect events.EffectID
	in     turn.Input
}

func (w *world) newNode() *simNode {
	w.workers++
	return &simNode{w: w, id: events.WorkerID(fmt.Sprintf("w%d", w.workers)), host: w.newHost()}
}

// restart is kill -9 and a new process: jobs go back to the queue.
func (n *simNode) restart(t *rapid.T) {
	for _, r := range n.runs {
		r.job.held = false
	}
	for _, r := range n.tasks {
		r.drop()
	}
	*n = *n.w.newNode()
}

// quiet lets the queue believe that the node is gone, while it goes on: its
// progress was late, or it was frozen.
func (n *simNode) quiet(t *rapid.T) {
	if r := n.pick(t); r != nil {
		r.job.held = false
	}
}

// fetch takes a job that nobody holds.
func (n *simNode) fetch(t *rapid.T) {
	for _, j := range n.w.queue {
		busy := slices.ContainsFunc(n.runs, func(r *simRun) bool { return r.job.session == j.session })
		if !j.held && !busy {
			j.held = true
			j.given++
			n.runs = append(n.runs, &simRun{job: j, state: projector.New(j.session)})
			return
		}
	}
}

// pick is one of the node's runs; nil when there is none.
func (n *simNode) pick(t *rapid.T) *simRun {
	switch len(n.runs) {
	case 0:
		return nil
	case 1:
		return n.runs[0]
	}
	return n.runs[rapid.IntRange(0, len(n.runs)-1).Draw(t, "run")]
}

// finish ends one of the effects on their way.
func (n *simNode) finish(t *rapid.T) {
	r := n.pick(t)
	if r == nil || len(r.flights) == 0 {
		return
	}
	i := 0
	if len(r.flights) > 1 {
		i = rapid.IntRange(0, len(r.flights)-1).Draw(t, "flight")
	}
	t.Logf("%s ends %s of %s", n.id, r.flights[i].effect, r.job.session)
	r.mail = append(r.mail, r.flights[i].in)
	r.flights = slices.Delete(r.flights, i, i+1)
}

// work is a while in which nobody else does anything, so that schedules come far.
func (n *simNode) work(t *rapid.T) {
	for range rapid.IntRange(1, 12).Draw(t, "rounds") {
		n.fetch(t)
		n.step(t)
		n.finish(t)
	}
}

// step makes one of the runs do the next thing: fold, or append, or begin effects, or let go.
func (n *simNode) step(t *rapid.T) {
	r := n.pick(t)
	if r == nil {
		return
	}
	over, err := n.advance(r)
	if err != nil && !errors.Is(err, events.ErrOutcomeUnknown) && !errors.Is(err, errSimSuperseded) {
		n.w.t.Fatal(err)
	}
	if err != nil || over {
		n.runs = slices.DeleteFunc(n.runs, func(have *simRun) bool { return have == r })
		r.job.held = false
		if over && err == nil {
			n.w.drop(r.job)
		}
	}
}

var errSimSuperseded = errors.New("superseded")

func (n *simNode) advance(r *simRun) (over bool, err error) {
	if r.state.Seq == 0 {
		return false, follow.Sync(n.w.ctx, n.w.log, r.state)
	}
	t := r.state.Turn()
	owes := turn.Owed(r.state)
	switch {
	case len(r.mail) > 0:
		in := r.mail[0]
		r.mail = r.mail[1:]
		return false, n.take(r, in)
	case turn.Branching(r.state) != nil:
		return false, n.branchOff(r, turn.Branching(r.state))
	case r.job.says != nil && !r.claimed && t != nil && t.Job != r.job.turn:
		return n.answerJob(r, owes)
	case t == nil:
		return n.claimNext(r)
	case r.claimed && t.Worker != n.id:
		return false, errSimSuperseded
	case !r.claimed:
		return n.meet(r, t)
	case owes.Stop:
		r.flights = nil
		return false, n.take(r, turn.Stop{})
	case owes.Parked() && len(r.flights) == 0:
		if known, err := n.known(r); err != nil || !known && r.job.asks() {
			return false, errors.Join(err, n.place(r)) // nothing would know of it
		}
		return true, nil // whoever answers wakes it
	}
	n.begin(r, owes)
	return false, nil
}

// claimNext starts the job's turn, or one that waits; it is over when there is none.
func (n *simNode) claimNext(r *simRun) (over bool, err error) {
	known, err := n.known(r)
	if err != nil || (known || !r.job.asks()) && len(r.state.Queue) == 0 {
		return err == nil, err
	}
	c := n.claim(r)
	if !known && r.job.asks() {
		if len(r.state.Queue) > 0 {
			return false, n.place(r)
		}
		c.Turn, c.Input = r.job.turn, r.job.input
	}
	if len(r.state.Queue) > 0 && r.job.given > 1 {
		return n.coverAnew(r)
	}
	if fresh := *r.job; len(r.state.Queue) > 0 {
		fresh.held, fresh.given = false, 0
		if n.w.enqueue(&fresh) == &fresh {
			return true, nil // somebody else had the message, and left it to the turn that ran: who gets the new one claims
		}
	}
	return false, n.take(r, c)
}

// coverAnew leaves what is owed to a command that nobody had before: the ack of
// who had this one may be on its way. The run ends in a step of its own.
func (n *simNode) coverAnew(r *simRun) (over bool, err error) {
	if !r.covered {
		n.w.ids++
		n.w.enqueue(&simJob{session: r.job.session, turn: events.TurnID(fmt.Sprintf("cover-%d", n.w.ids)), cover: true})
		r.covered = true
		return false, nil
	}
	return true, nil
}

// meet takes over the turn whose message this is, or is gone, or puts its own behind the running one.
func (n *simNode) meet(r *simRun, t *projector.Turn) (over bool, err error) {
	known, err := n.known(r)
	known = known || !r.job.asks()
	if err != nil || !known && r.job.busy != events.BusyEnqueue {
		return false, errors.Join(err, n.place(r))
	}
	alone := n.stranded(r, t)
	switch {
	case t.Job == r.job.turn, alone && r.job.given == 1:
		return false, n.take(r, n.claim(r))
	case !known:
		return false, n.place(r)
	case alone:
		return n.coverAnew(r)
	}
	return true, nil // the running turn's message covers it
}

// stranded reports whether nobody holds the running turn's message, unless it is for want of an answer.
func (n *simNode) stranded(r *simRun, t *projector.Turn) bool {
	if owes := turn.Owed(r.state); owes.Parked() {
		return owes.Stop
	}
	return !slices.ContainsFunc(n.w.queue, func(j *simJob) bool { return j.session == r.job.session && j.turn == t.Job })
}

// claim takes the next turn, or takes over the running one, with the run's job.
func (n *simNode) claim(r *simRun) turn.Claim {
	return turn.Claim{Worker: n.id, Job: r.job.turn, Tools: simTools, Points: simPoints}
}

// place records the job's turn behind others, and what its policy makes of that.
func (n *simNode) place(r *simRun) error {
	return n.append(r, turn.Request(r.state, r.job.turn, r.job.input, r.job.busy))
}

// branchOff does the next thing for a turn that goes on in a session of its
// own: open that, put the command in its queue, end the turn here.
func (n *simNode) branchOff(r *simRun, q *projector.QueuedTurn) error {
	branch := events.SessionID(fmt.Sprintf("%s-%s", r.job.session, q.ID))
	switch {
	case n.w.verified[branch] == nil:
		n.w.open(branch)
	case r.sent != q.ID:
		n.w.asked[string(branch)+"/"+string(q.ID)] = true
		n.w.enqueue(&simJob{session: branch, turn: q.ID, input: q.Input})
		r.sent = q.ID
	default:
		return n.append(r, []events.Event{events.Of(q.ID, &events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: branch})})
	}
	return nil
}

// known reports whether the job's turn is in the history.
func (n *simNode) known(r *simRun) (bool, error) {
	id := r.job.turn
	if t := r.state.Turn(); t != nil && t.ID == id {
		return true, nil
	}
	for _, q := range r.state.Queue {
		if q.ID == id {
			return true, nil
		}
	}
	record, err := r.state.Record(id)
	return record != nil, err
}

// take steps an input and appends what follows.
func (n *simNode) take(r *simRun, in turn.Input) error {
	out, err := turn.Step(r.state, in)
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	if err != nil {
		return err
	}
	moved, err := n.appendAt(r, out.Events)
	if _, claims := in.(turn.Claim); claims && !moved && err == nil {
		r.claimed = true
	}
	if _, claims := in.(turn.Claim); moved && !claims {
		r.mail = append([]turn.Input{in}, r.mail...) // step it again on the new state
	}
	return err
}

func (n *simNode) append(r *simRun, list []events.Event) error {
	_, err := n.appendAt(r, list)
	return err
}

// appendAt appends at the run's state and folds, also what others appended instead.
func (n *simNode) appendAt(r *simRun, list []events.Event) (moved bool, err error) {
	for i := range list {
		n.w.t.Logf("%s appends %s of %s to %s at %d", n.id, list[i].Kind, list[i].Turn, r.job.session, r.state.Seq)
	}
	_, err = n.w.log.Append(n.w.ctx, n.w.commit(r.job.session, list...), events.At(r.state.Seq))
	if moved = errors.As(err, new(*events.ConflictError)); err != nil && !moved {
		return false, err
	}
	if err := follow.Sync(n.w.ctx, n.w.log, r.state); err != nil {
		return moved, err
	}
	if t := r.state.Turn(); moved && r.claimed && (t == nil || t.Worker != n.id) {
		return true, errSimSuperseded
	}
	return moved, nil
}

// begin starts the effects that are owed and not on their way.
func (n *simNode) begin(r *simRun, owes turn.Owes) {
	if owes.Model {
		n.fly(r, turn.ModelEffect(owes.Turn, owes.Iteration), func() turn.Input { return n.reply(r, owes) })
	}
	if owes.Hooks != "" {
		n.fly(r, turn.HookEffect(owes), func() turn.Input { return n.gate(r, owes) })
	}
	for _, c := range owes.Calls {
		n.fly(r, c.Effect, func() turn.Input { return n.call(r, owes, c) })
	}
}

func (n *simNode) fly(r *simRun, effect events.EffectID, run func() turn.Input) {
	flies := slices.ContainsFunc(r.flights, func(f simFlight) bool { return f.effect == effect })
	if flies {
		return
	}
	n.w.begins(n.id, r, effect)
	r.flights = append(r.flights, simFlight{effect: effect, in: run()})
}

// reply is what the model says at an iteration.
func (n *simNode) reply(r *simRun, owes turn.Owes) turn.Input {
	p, err := r.state.Prompt()
	if err != nil {
		n.w.t.Fatal(err)
	}
	m := events.ModelReplied{Iteration: owes.Iteration, Prompt: p.Ref, Stop: events.StopEnd, Parts: []events.Part{text("done")}}
	if int(owes.Iteration) < len(simCalls) {
		m.Stop = events.StopToolUse
		for i, tool := range simCalls[owes.Iteration] {
			m.Parts = append(m.Parts, call(events.CallID(fmt.Sprintf("c%d", i)), tool, "{}"))
		}
	}
	return turn.Reply{ModelReplied: m}
}
