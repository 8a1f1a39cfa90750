package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// The simulation runs the pure machines of several nodes and clients over a
// log that loses, delays and refuses. Rapid draws which of them makes its next
// step, and what goes wrong; after each step the history is verified. A
// failing seed is cut down to the shortest script that still fails.
//
//	go test ./integration -run TestSimulation -rapid.checks=100000

const (
	simNodes    = 3
	simSessions = 2
	simTurns    = 4 // ids of turns that clients use, in each session
)

// simTools are what every node offers.
var simTools = []events.ToolEntry{
	{Name: "again", Effects: events.EffectsIdempotent}, {Name: simGuarded}, {Name: "once"}, {Name: "pure", Effects: events.EffectsNone},
}

// simCalls are the calls of a turn's replies; the one after the last is the answer.
var simCalls = [][]string{{"again", simGuarded, "once"}, {simGuarded, "pure", simGuarded}}

// world is everything that is not a node.
type world struct {
	t        *rapid.T
	ctx      context.Context
	log      *eventstest.FaultyLog
	truth    *events.MemLog
	ids      uint64
	queue    []*simJob
	nodes    []*simNode
	verified map[events.SessionID]*projector.Verifier
	asked    map[string]bool       // turns that clients were told are accepted
	ran      map[string]int        // runs of each tool call
	words    []simWord             // of clients that have not said them yet
	told     map[string]simWord    // answers that clients were told count, of each effect
	given    map[string]bool       // answers that histories have, of each effect
	recorded map[string]events.Seq // where effects came to something
	claimed  map[string]events.Seq // the last claim of each worker, in each session
	tasks    map[string]*simTask
	jobs     []*simTaskJob
	acts     map[events.CommitID]simAct
	door     *simHost // that clients ask about tasks
	settling bool
	workers  int
}

// simJob is a queued command. Whoever held it last and is alive may still work on it.
type simJob struct {
	session events.SessionID
	turn    events.TurnID
	input   events.TurnInput
	busy    events.WhenBusy
	says    turn.Input // about a running turn, instead of asking for one
	cover   bool       // asks for nothing: whoever gets it goes on with what is owed
	held    bool
	given   int // times to a node
}

// asks reports whether the command is for a turn of its own.
func (j *simJob) asks() bool { return j.says == nil && !j.cover }

// simPolicies are what clients ask for in case that a turn is in the way.
var simPolicies = []events.WhenBusy{
	events.BusyEnqueue, events.BusyEnqueue, events.BusyInject, events.BusyReject, events.BusyInterrupt, events.BusyBranch,
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, ctx: context.Background(), truth: &events.MemLog{}, verified: make(map[events.SessionID]*projector.Verifier),
		asked: make(map[string]bool), ran: make(map[string]int), told: make(map[string]simWord), given: make(map[string]bool),
		recorded: make(map[string]events.Seq), claimed: make(map[string]events.Seq),
		tasks: make(map[string]*simTask), acts: make(map[events.CommitID]simAct),
	}
	w.door = w.newHost()
	w.log = eventstest.NewFaultyLog(w.truth, eventstest.FaultOptions{
		Seed: rapid.Uint64().Draw(t, "faults"), Rate: rapid.SampledFrom([]float64{0, 0.1, 0.3}).Draw(t, "rate"), GiveUpAfter: 3,
	})
	for i := range simSessions {
		id := events.SessionID(fmt.Sprintf("s%d", i))
		w.open(id)
	}
	for range simNodes {
		w.nodes = append(w.nodes, w.newNode())
	}
	return w
}

func (w *world) commit(id events.SessionID, list ...events.Event) *events.Commit {
	w.ids++
	var raw ulid.ULID
	for i := range 8 {
		raw[15-i] = byte(w.ids >> (8 * i))
	}
	return &events.Commit{
		ID: events.CommitID(raw.String()), Session: id, At: events.Millis(w.ids), Actor: events.Actor{Kind: events.ActorSystem}, Events: list,
	}
}

func (w *world) session() events.SessionID {
	return events.SessionID(fmt.Sprintf("s%d", rapid.IntRange(0, simSessions-1).Draw(w.t, "session")))
}

func (w *world) turn() events.TurnID {
	return events.TurnID(fmt.Sprintf("t%d", rapid.IntRange(0, simTurns-1).Draw(w.t, "turn")))
}

// submit is a client that asks for a turn, perhaps once more.
func (w *world) submit(*rapid.T) {
	id, turn := w.session(), w.turn()
	w.asked[string(id)+"/"+string(turn)] = true
	busy := rapid.SampledFrom(simPolicies).Draw(w.t, "busy")
	w.enqueue(&simJob{session: id, turn: turn, input: events.TurnInput{Parts: []events.Part{text(string(turn))}}, busy: busy})
}

// enqueue puts a command in the queue, which refuses a second one of its turn,
// and returns the one that waits there.
func (w *world) enqueue(job *simJob) *simJob {
	for _, j := range w.queue {
		if j.session == job.session && j.turn == job.turn {
			return j
		}
	}
	w.queue = append(w.queue, job)
	return job
}

// open makes a session, once.
func (w *world) open(id events.SessionID) {
	if w.verified[id] != nil {
		return
	}
	w.verified[id] = projector.NewVerifier(id)
	if _, err := w.truth.Append(w.ctx, w.commit(id, events.Of("", &events.SessionOpened{})), events.At(0)); err != nil {
		w.t.Fatal(err)
	}
}

// cancel is a client that wants a turn to stop.
func (w *world) cancel(*rapid.T) {
	id, turn := w.session(), w.turn()
	if !w.cancelParked(id, turn) {
		return
	}
	w.decide(id, func(s *projector.State) []events.Event {
		known := s.Turn() != nil && s.Turn().ID == turn && !s.Turn().Cancelled
		for _, q := range s.Queue {
			known = known || q.ID == turn && !q.Cancelled && q.Busy != events.BusyBranch
		}
		if !known {
			return nil
		}
		return []events.Event{events.Of(turn, &events.TurnCancelRequested{Request: "r"})}
	})
}

// inject is a client that says something beside the turns.
func (w *world) inject(*rapid.T) {
	w.ids++
	input := events.InputID(fmt.Sprintf("i%d", w.ids))
	w.decide(w.session(), func(*projector.State) []events.Event {
		return []events.Event{events.Of("", &events.InputInjected{Input: input, Role: events.RoleUser, Parts: []events.Part{text(string(input))}})}
	})
}

// decide is what hosts do: fold, decide, append at what was folded, again after a conflict.
func (w *world) decide(id events.SessionID, what func(*projector.State) []events.Event) {
	for {
		s := w.now(id)
		list := what(s)
		if len(list) == 0 {
			return
		}
		_, err := w.log.Append(w.ctx, w.commit(id, list...), events.At(s.Seq))
		if !errors.As(err, new(*events.ConflictError)) {
			return // done, or the client gives up without knowing
		}
	}
}

func (w *world) fold(id events.SessionID) *projector.State {
	s := projector.New(id)
	if err := follow.Sync(w.ctx, w.truth, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// now is the state at the end of a session's history; not to be changed.
func (w *world) now(id events.SessionID) *projector.State {
	w.check(w.t)
	return w.verified[id].State()
}

// check verifies what is new in the histories.
func (w *world) check(t *rapid.T) {
	for id, v := range w.verified {
		for entry, err := range w.truth.Read(w.ctx, id, v.State().Seq+1) {
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range v.Apply(entry) {
				t.Fatalf("session %s: %+v", id, wrong)
			}
			for _, wrong := range v.Check() {
				t.Fatalf("session %s: %+v", id, wrong)
			}
			w.noteTasks(id, entry)
			for i := range entry.Commit.Events {
				if given, ok := entry.Commit.Events[i].Payload.(*events.ToolApprovalGiven); ok {
					w.noteAnswer(id, given)
				}
			}
			w.noteRecorded(id, entry)
		}
	}
	w.checkJobs()
}

// settle lets everybody work without faults until nothing is left to do, and
// checks that whatever was accepted has ended.
func (w *world) settle() {
	w.log = eventstest.NewFaultyLog(w.truth, eventstest.FaultOptions{})
	for _, n := range w.nodes {
		n.restart(w.t)
	}
	w.settling = true
	w.sweepTasks()
	for range 2000 {
		for _, n := range w.nodes {
			n.fetch(w.t)
			n.step(w.t)
			n.finish(w.t)
			n.takeTask()
			n.stepTask(w.t)
		}
		w.check(w.t)
		if len(w.queue) == 0 && len(w.jobs) == 0 && !w.approveAll() {
			break
		}
	}
	if len(w.queue) > 0 {
		w.t.Fatalf("commands that never end: %+v", *w.queue[0])
	}
	w.checkEnded()
	for id := range w.verified {
		s := w.fold(id)
		if !s.Idle() {
			w.t.Fatalf("session %s: got work left, want it idle: %+v", id, turn.Owed(s))
		}
		w.checkTold(s)
		for i := range simTurns {
			w.checkTurn(s, events.TurnID(fmt.Sprintf("t%d", i)))
		}
	}
}

// checkTurn wants a turn that was accepted to have ended once, here and where
// it went, and its message to stand in the one turn that it is part of.
func (w *world) checkTurn(s *projector.State, id events.TurnID) {
	record, err := s.Record(id)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := record != nil; got != w.asked[string(s.Session)+"/"+string(id)] {
		w.t.Fatalf("turn %s of %s: ended %t, accepted %t", id, s.Session, got, !got)
	}
	if record == nil {
		return
	}
	if ends := w.ends(s.Session, id); ends != 1 {
		w.t.Fatalf("turn %s of %s: got %d ends, want 1", id, s.Session, ends)
	}
	in := []events.TurnID{}
	switch {
	case record.Index > 0:
		in = append(in, id)
	case record.End == events.EndInjected:
		in = append(in, record.By)
	case record.End == events.EndBranched && w.ends(record.Session, id) != 1:
		w.t.Fatalf("turn %s of %s: got no end in %s", id, s.Session, record.Session)
	}
	nodes, err := s.AllNodes()
	if err != nil {
		w.t.Fatal(err)
	}
	said := []events.TurnID{}
	for _, n := range nodes {
		if n.Message.Role == events.RoleUser && n.Message.Text() == string(id) {
			said = append(said, n.Turn)
		}
	}
	if !slices.Equal(said, in) {
		w.t.Fatalf("message of turn %s of %s, which was %s: got it in turns %v, want %v", id, s.Session, record.End, said, in)
	}
}

// ends counts the events that end a turn.
func (w *world) ends(session events.SessionID, id events.TurnID) (n int) {
	for entry, err := range w.truth.Read(w.ctx, session, 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range entry.Commit.Events {
			if ev.Turn == id && (ev.Kind == events.KindTurnCompleted || ev.Kind == events.KindTurnDiverted) {
				n++
			}
		}
	}
	return n
}

// TestSimulation runs schedules from seed 1 on, 2 000 of them, or 300 with
// -short; the flags of rapid choose others: -rapid.seed, -rapid.checks.
func TestSimulation(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": "2000"} {
		f := flag.Lookup(name)
		if name == "rapid.checks" && testing.Short() {
			value = "300"
		}
		if f.Value.String() != f.DefValue {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, simulate)
}

func simulate(t *rapid.T) {
	w := newWorld(t)
	node := func(do func(*simNode, *rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) { do(w.nodes[rapid.IntRange(0, simNodes-1).Draw(t, "node")], t) }
	}
	actions := map[string]func(*rapid.T){
		"submit": w.submit, "cancel": w.cancel, "inject": w.inject,
		"look": w.look, "look_more": w.look, "answer": w.answer, "answer_more": w.answer,
		"fetch": node((*simNode).fetch), "fetch_more": node((*simNode).fetch),
		"step": node((*simNode).step), "step_more": node((*simNode).step), "step_on": node((*simNode).step),
		"finish": node((*simNode).finish), "work": node((*simNode).work), "work_more": node((*simNode).work),
		"register": w.register, "cancel_task": w.cancelTask,
		"work_tasks": node((*simNode).workTasks), "work_tasks_more": node((*simNode).workTasks),
		"spawn": node((*simNode).spawn), "quiet_task": node((*simNode).quietTask),
		"quiet": node((*simNode).quiet), "restart": node((*simNode).restart),
		"": w.check,
	}
	for range 4 {
		t.Repeat(actions)
	}
	w.settle()
}

// drop takes a job out of the queue.
func (w *world) drop(j *simJob) {
	w.queue = slices.DeleteFunc(w.queue, func(q *simJob) bool { return q == j })
}
