package system

import (
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// audit compares a history with the journal of its effects.
type audit struct {
	t       *testing.T
	session events.SessionID
	lines   map[string][]string
	ends    map[events.TurnID]int
	seen    map[events.EffectID]bool // replies and results recorded
	lost    map[events.EffectID]bool
	newest  map[events.EffectID]string // the nonces that the last commit read has recorded
}

// totals are the counts of the audits of several sessions.
type totals struct{ takeovers, lost, again int }

// auditSession checks every guarantee of a session whose turns have all ended.
func auditSession(t *testing.T, b *bus.Bus, id events.SessionID, turns int, lines map[string][]string, sum *totals) {
	t.Helper()
	a := &audit{
		t: t, session: id, lines: lines, ends: make(map[events.TurnID]int),
		seen: make(map[events.EffectID]bool), lost: make(map[events.EffectID]bool), newest: make(map[events.EffectID]string),
	}
	v := projector.NewVerifier(id)
	for entry, err := range b.Log().Read(harness.Context(t), id, 1) {
		runtest.NoError(t, err)
		found, err := follow.Verify(harness.Context(t), b, v, entry)
		runtest.WantError(t, "verify", err, nil)
		for _, violation := range found {
			t.Errorf("%s: %+v", id, violation)
		}
		a.known(entry.Commit.At)
		for i := range entry.Commit.Events {
			a.event(&entry.Commit.Events[i])
		}
	}
	a.known(0)
	for _, violation := range v.Check() {
		t.Errorf("%s: %+v", id, violation)
	}
	for i := range turns {
		a.turn(workloadTurn(i))
	}
	if len(a.ends) != turns {
		t.Errorf("%s: got %d ended turns, want %d", id, len(a.ends), turns)
	}
	records, err := v.State().Records()
	runtest.NoError(t, err)
	for i := range records {
		sum.takeovers += int(records[i].Attempts - 1)
	}
	sum.lost += len(a.lost)
	for effect := range a.seen {
		sum.again += len(lines[a.key(effect)]) - 1
	}
}

func (a *audit) key(effect events.EffectID) string { return string(a.session) + "/" + string(effect) }

func (a *audit) event(e *events.Event) {
	switch p := e.Payload.(type) {
	case *events.TurnCompleted:
		a.ends[e.Turn]++
		if p.End != events.EndFinished {
			a.t.Errorf("%s turn %s: got end %s %+v, want %s", a.session, e.Turn, p.End, p.Issue, events.EndFinished)
		}
	case *events.ModelReplied:
		a.recorded(turn.ModelEffect(e.Turn, p.Iteration), p.Parts[0].Text)
	case *events.ModelFailed:
		a.t.Errorf("%s turn %s: got a failed model call %+v", a.session, e.Turn, p)
	case *events.ToolReturned:
		for _, r := range p.Results {
			if r.Outcome != events.OutcomeSuccess {
				a.t.Errorf("%s turn %s: got result %+v", a.session, e.Turn, r)
			}
			a.recorded(turn.ToolEffect(e.Turn, p.Iteration, r.Call), r.Text)
		}
	case *events.ToolLost:
		for _, c := range p.Calls {
			effect := turn.ToolEffect(e.Turn, p.Iteration, c)
			if tool := calls[p.Iteration][c]; tool != "once" {
				a.t.Errorf("%s: got %s, a call of %s, lost", a.session, effect, tool)
			}
			if a.lost[effect] || a.seen[effect] {
				a.t.Errorf("%s: got %s lost and recorded, or lost twice", a.session, effect)
			}
			a.lost[effect] = true
		}
	}
}

// recorded checks that an effect is recorded once.
func (a *audit) recorded(effect events.EffectID, nonce string) {
	if a.seen[effect] || a.lost[effect] {
		a.t.Errorf("%s: got %s recorded twice, or lost", a.session, effect)
	}
	a.seen[effect], a.newest[effect] = true, nonce
}

// known checks that a recorded effect is in the journal, and did not start again after the next commit: the worker
// that made that commit had the record. An effect that started before may be one of a superseded worker. Where at
// is 0 there is no such commit, and no start may follow.
func (a *audit) known(at events.Millis) {
	for effect, nonce := range a.newest {
		lines := a.lines[a.key(effect)]
		i := slices.Index(lines, nonce)
		if i < 0 || slices.ContainsFunc(lines[i+1:], func(later string) bool { return startedAfter(later, at) }) {
			a.t.Errorf("%s: got %s recorded with nonce %s, and known at %d, want none of %v after that", a.session, effect, nonce, at, lines)
		}
	}
	clear(a.newest)
}

// turn checks that the turn has ended once, that every effect is recorded or lost, and that every call of the tool
// that must not run twice has at most one line.
func (a *audit) turn(id events.TurnID) {
	if a.ends[id] != 1 {
		a.t.Errorf("%s turn %s: got %d ends, want 1", a.session, id, a.ends[id])
	}
	for iteration := range len(calls) + 1 {
		if effect := turn.ModelEffect(id, int64(iteration)); !a.seen[effect] {
			a.t.Errorf("%s: got no reply %s", a.session, effect)
		}
		if iteration == len(calls) {
			break
		}
		for i, tool := range calls[iteration] {
			effect := turn.ToolEffect(id, int64(iteration), int64(i))
			if a.seen[effect] == a.lost[effect] {
				a.t.Errorf("%s: got %s recorded %v, lost %v, want one of them", a.session, effect, a.seen[effect], a.lost[effect])
			}
			if n := len(a.lines[a.key(effect)]); tool == "once" && n > 1 {
				a.t.Errorf("%s: got %s run %d times, want at most once", a.session, effect, n)
			}
		}
	}
}

// auditAll audits every session of the workload.
func auditAll(t *testing.T, b *bus.Bus, sessions, turns int, journal string) totals {
	t.Helper()
	lines := linesOf(journal)
	var sum totals
	for i := range sessions {
		auditSession(t, b, workloadSession(i), turns, lines, &sum)
	}
	var listed []events.SessionID
	for id, err := range b.Sessions(harness.Context(t)) {
		runtest.NoError(t, err)
		listed = append(listed, id)
	}
	if slices.Sort(listed); len(listed) != sessions {
		t.Errorf("sessions: got %v, want %d", listed, sessions)
	}
	t.Logf("%d takeovers, %d lost calls, %d effects asked for again", sum.takeovers, sum.lost, sum.again)
	return sum
}
