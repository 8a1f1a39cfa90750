package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// simGuarded is the tool whose calls a plugin of every session asks about.
const simGuarded = "guarded"

// simPoints are where that plugin is asked.
var simPoints = []events.HookPoint{events.PointBeforeTool}

// simWord is a client that is about to answer a question, which it has seen.
type simWord struct {
	session events.SessionID
	turn    events.TurnID
	seen    events.Seq
	given   events.ToolApprovalGiven
}

// simEffect names an effect among those of all sessions.
func simEffect(session events.SessionID, effect events.EffectID) string {
	return string(session) + "/" + string(effect)
}

// simCommand names a command that is about an effect: one of each kind waits at a time.
func simCommand(kind string, effect events.EffectID) events.TurnID {
	return events.TurnID(kind + "-" + strings.ReplaceAll(string(effect), "/", "-"))
}

// look is a client that finds a question and makes up its mind.
func (w *world) look(*rapid.T) {
	id := w.anySession()
	if asked := w.questions(id); len(asked) > 0 {
		word := asked[rapid.IntRange(0, len(asked)-1).Draw(w.t, "question")]
		word.given.Granted = rapid.Bool().Draw(w.t, "granted")
		w.words = append(w.words, word)
	}
}

// answer is a client that says what it has made up its mind to, however late.
func (w *world) answer(*rapid.T) {
	if len(w.words) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.words)-1).Draw(w.t, "word")
	word := w.words[i]
	if !rapid.Bool().Draw(w.t, "twice") {
		w.words = slices.Delete(w.words, i, i+1)
	}
	w.say(word)
}

// anySession is one of all sessions, those that branched off too.
func (w *world) anySession() events.SessionID {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(w.verified))).Draw(w.t, "any")
}

// questions are what waits for an answer.
func (w *world) questions(id events.SessionID) (list []simWord) {
	s := w.now(id)
	t := s.Turn()
	if t == nil || t.Cancelled {
		return nil
	}
	for i := range t.Asks {
		if !t.Asks[i].Answered {
			given := events.ToolApprovalGiven{Effect: t.Asks[i].Effect, Granted: true}
			list = append(list, simWord{session: id, turn: t.ID, seen: s.Seq, given: given})
		}
	}
	return list
}

// say puts an answer in the queue, and remembers what the client is told that
// counts: what the history has since, else what waits in the queue.
func (w *world) say(word simWord) {
	waits := w.enqueue(&simJob{
		session: word.session, turn: simCommand("answer", word.given.Effect), says: turn.Answer{ToolApprovalGiven: word.given},
	})
	for entry, err := range w.truth.Read(w.ctx, word.session, word.seen+1) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range entry.Commit.Events {
			p, given := ev.Payload.(*events.ToolApprovalGiven)
			if given && p.Effect == word.given.Effect || ev.Turn == word.turn && endsAnswers(ev.Kind) {
				return // that counts, and the history has it
			}
		}
	}
	word.given = waits.says.(turn.Answer).ToolApprovalGiven
	w.told[simEffect(word.session, word.given.Effect)] = word
}

// endsAnswers reports whether no answer counts after an event.
func endsAnswers(k events.Kind) bool {
	return k == events.KindTurnCancelRequested || k == events.KindTurnCompleted
}

// cancelParked puts a cancel in the queue for a turn that nobody holds. It
// reports whether the client is there still, to record the cancel by itself.
func (w *world) cancelParked(id events.SessionID, of events.TurnID) bool {
	if s := w.now(id); s.Turn() == nil || s.Turn().ID != of || !turn.Parked(s) {
		return true
	}
	request := events.TurnCancelRequested{Request: "r"}
	w.enqueue(&simJob{session: id, turn: simCommand("cancel", events.EffectID(of)), says: turn.Cancel{Turn: of, TurnCancelRequested: request}})
	return rapid.Bool().Draw(w.t, "records")
}

// approveAll answers whatever waits, and reports whether anything did.
func (w *world) approveAll() (any bool) {
	for _, id := range slices.Sorted(maps.Keys(w.verified)) {
		for _, word := range w.questions(id) {
			w.say(word)
			any = true
		}
	}
	return any
}

// noteAnswer keeps the answers that histories have: one to each question, and the one that clients were told of.
func (w *world) noteAnswer(id events.SessionID, given *events.ToolApprovalGiven) {
	name := simEffect(id, given.Effect)
	if _, before := w.given[name]; before {
		w.t.Fatalf("%s was answered before", name)
	}
	w.given[name] = given.Granted
	if word, ok := w.told[name]; ok && word.given.Granted != given.Granted {
		w.t.Fatalf("answer to %s: got %t, clients were told %t", name, given.Granted, !given.Granted)
	}
}

// checkTold wants every answer that clients were told of to count, unless its turn was cancelled.
func (w *world) checkTold(s *projector.State) {
	for name, word := range w.told {
		if _, given := w.given[name]; given || word.session != s.Session {
			continue
		}
		record, err := s.Record(word.turn)
		if err != nil || record == nil || record.End != events.EndCancelled {
			w.t.Fatalf("the answer to %s is lost, its turn came to %+v, %v", name, record, err)
		}
	}
}

// answerJob performs a command that is about a running turn: a parked one is
// taken over with it, in one commit, of another one it is only recorded.
func (n *simNode) answerJob(r *simRun, owes turn.Owes) (over bool, err error) {
	s, list := r.state, []events.Event(nil)
	if owes.Parked() {
		out, err := turn.Step(s, n.claim(r))
		if err != nil {
			return false, err
		}
		s, list = s.Clone(), out.Events
		for i := range list {
			s.Ahead(&list[i], events.Millis(n.w.ids))
		}
	}
	out, err := turn.Step(s, r.job.says)
	if errors.Is(err, turn.ErrStale) {
		return true, nil // somebody answered before
	}
	if err != nil {
		return false, err
	}
	moved, err := n.appendAt(r, append(list, out.Events...))
	r.claimed = owes.Parked() && !moved && err == nil
	return false, err
}

// gate is what the plugin decides before the calls of a reply: it asks about some.
func (n *simNode) gate(r *simRun, owes turn.Owes) turn.Input {
	in := turn.Hooks{Ran: events.HookRan{Point: owes.Hooks, At: owes.At, Iteration: owes.Iteration}}
	for i, c := range r.state.Turn().Calls {
		if c.Tool == simGuarded {
			effect := turn.ToolEffect(owes.Turn, owes.Iteration, int64(i))
			in.Asks = append(in.Asks, events.ToolApprovalAsked{Effect: effect, Tool: c.Tool, Args: c.Args, Plugin: "p", Question: "really?"})
		}
	}
	return in
}

// call runs one tool call, unless somebody refused it.
func (n *simNode) call(r *simRun, owes turn.Owes, c turn.Call) turn.Input {
	result := events.ToolResult{Call: c.Index, Text: "done"}
	if c.Answer != nil && !c.Answer.Granted {
		result = events.ToolResult{Call: c.Index, Outcome: events.OutcomeFailure, Text: "[failed] not approved"}
	} else {
		n.w.runs(r.job.session, c)
	}
	return turn.Results{Iteration: owes.Iteration, Results: []events.ToolResult{result}}
}

// runs wants a call that starts to be allowed to: approved where that was
// asked for, and not started before where it must run once.
func (w *world) runs(session events.SessionID, c turn.Call) {
	name := simEffect(session, c.Effect)
	w.check(w.t)
	w.ran[name]++
	if c.Tool == simGuarded && !w.given[name] {
		w.t.Fatalf("call %s runs, which nobody approved", name)
	}
	if entry := simTool(c.Tool); !entry.Effects.Repeatable() && w.ran[name] > 1 {
		w.t.Fatalf("call %s, which must run once, ran again", name)
	}
}

func simTool(name string) events.ToolEntry {
	i := slices.IndexFunc(simTools, func(e events.ToolEntry) bool { return e.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("no tool %q", name))
	}
	return simTools[i]
}
