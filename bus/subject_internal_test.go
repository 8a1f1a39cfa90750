package bus

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestNames parses each built name, for every valid prefix and id.
func TestNames(t *testing.T) {
	t.Parallel()
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		n := names{token.Draw(t, "prefix")}
		session, id := events.SessionID(token.Draw(t, "session")), token.Draw(t, "id")
		key := WakeKey{Class: rapid.SampledFrom([]Class{ClassTurn, ClassAgent, ClassTool, ClassTask}).Draw(t, "class"), Session: session}
		if !key.Class.OfTurns() {
			key.Task = events.TaskID(id)
		}
		if got, ok := n.sessionOf(n.nextStream(session, rapid.StringMatching(`[0-9A-Z]{0,26}`).Draw(t, "nonce"))); !ok || got != session {
			t.Errorf("stream: got %s %v, want %s", got, ok, session)
		}
		if got, ok := n.parseWork(n.work(key)); !ok || got != key {
			t.Errorf("work: got %+v %v, want %+v", got, ok, key)
		}
		for _, subject := range []string{n.timerAt(session), n.timerDue(session)} {
			if got, ok := n.parseTimer(subject); !ok || got != session {
				t.Errorf("timer: got %s %v, want %s", got, ok, session)
			}
		}
		family := rapid.SampledFrom([]string{"turn", "task", "monitor", "session"}).Draw(t, "family")
		live := strings.TrimSuffix(n.liveAll(session), ">") + family
		row := func(subject string) (events.SessionID, bool) { return n.parseRow("lash-directory", subject) }
		for subject, parse := range map[string]func(string) (events.SessionID, bool){
			live: n.parseLive, n.dirty(session): n.parseDirty, n.erased(session): n.parseErased, n.archive(session): n.parseArchive,
			n.priority(session): n.parsePriority, n.row("lash-directory", session): row,
		} {
			if got, ok := parse(subject); !ok || got != session {
				t.Errorf("%s: got %s %v, want %s", subject, got, ok, session)
			}
			foreign := []string{"", "x." + subject}
			if subject != live { // it may have more tokens, and does not end with its session
				foreign = append(foreign, subject+".x", strings.TrimSuffix(subject, string(session)))
			}
			for _, subject := range foreign {
				if got, ok := parse(subject); ok {
					t.Errorf("%q: got %s, want a refusal", subject, got)
				}
			}
		}
		if _, ok := n.parseWork(n.dirty(session)); ok {
			t.Error("a mark was read as work")
		}
	})
}

func TestParseForeignNames(t *testing.T) {
	t.Parallel()
	n := names{"lash"}
	for _, subject := range []string{"", "lash.work.turn", "lash.work.turn.s1.t1", "lash.work.task.s1", "lash.work.tool.s1", "lash.work.task.s1.k1.x", "other.work.turn.s1", "lash.s.s1.turn"} {
		if key, ok := n.parseWork(subject); ok {
			t.Errorf("work %q: got %+v, want a refusal", subject, key)
		}
	}
	for _, subject := range []string{"", "lash.timer.at", "lash.timer.in.s1", "lash.timer.at.s1.t1", "other.timer.at.s1", "lash.work.turn.s1"} {
		if session, ok := n.parseTimer(subject); ok {
			t.Errorf("timer %q: got %s, want a refusal", subject, session)
		}
	}
	for _, stream := range []string{"", "lash-work", "lash-sessions", "KV_lash-s-x", "other-s-x"} {
		if id, ok := n.sessionOf(stream); ok {
			t.Errorf("stream %q: got %s, want a refusal", stream, id)
		}
	}
	if _, ok := n.parseDirty("lash.work.turn.s1"); ok {
		t.Error("work was read as a mark")
	}
}

func TestNamesAreDistinct(t *testing.T) {
	t.Parallel()
	n := names{"lash"}
	for _, tc := range []struct{ got, want string }{
		{n.sessionAll("s1"), "lash.s.s1.>"},
		{n.liveAll("s1"), "lash.live.s1.>"},
		{n.workClass(ClassTurn), "lash.work.turn.>"},
		{n.workAll(), "lash.work.>"},
		{n.dirtyAll(), "lash.dirty.*"},
		{n.deltaAll(), "lash.delta.>"},
		{n.delta("s1", "t1"), "lash.delta.s1.t1"},
		{n.deltaSession("s1"), "lash.delta.s1.*"},
		{n.work(WakeKey{Class: ClassTurn, Session: "s1"}), "lash.work.turn.s1"},
		{n.work(WakeKey{Class: ClassTool, Session: "s1", Task: "k1"}), "lash.work.tool.s1.k1"},
		{n.taskWakes("s1"), "lash.work.*.s1.>"},
		{n.notify("w1"), "lash.notify.w1"},
		{n.workerRequest("w1"), "lash.ask.w1"},
		{n.alive(), "lash.alive"},
		{n.deadAll(), "lash.dead.>"},
		{n.dead("s1"), "lash.dead.s1"},
		{n.deadLetters(), "lash.dead.*"},
		{n.trialAll(), "lash.tries.>"},
		{n.trial(TrialKey{Session: "s1", Of: TrialFold}), "lash.tries.s1.fold"},
		{n.trial(TrialKey{Session: "s1", Of: TrialTurn, Turn: "t1"}), "lash.tries.s1.turn.t1"},
		{n.trialsOf("s1"), "lash.tries.s1.>"},
		{n.timersDue(), "lash.timer.due.>"},
		{n.timersAt(), "lash.timer.at.>"},
		{n.timerAt("s1"), "lash.timer.at.s1"},
		{n.timerDue("s1"), "lash.timer.due.s1"},
		{n.timerSession("s1"), "lash.timer.*.s1"},
		{n.commit(&events.Commit{Session: "s1", Events: []events.Event{events.Of("t1", &events.TurnStarted{})}}), "lash.s.s1.turn"},
	} {
		runtest.Equal(t, "name", tc.got, tc.want)
	}
}

// TestParseLiveOfSession accepts a commit from the session's own streams only.
func TestParseLiveOfSession(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]events.Seq{
		"lash-s-s1": 7, "lash-s-s1@01ABC": 7, "lash-s-s2": 0, "lash-s-s11": 0, "lash-s-": 0, "OBJ_lash-blobs": 0, "lash-archive": 0, "": 0, "other-s-s1": 0,
	} {
		m := ParseLive(&nats.Msg{Subject: "lash.live.s1.turn", Header: nats.Header{headerSeq: {"7"}, jetstream.StreamHeader: {stream}}})
		if m.Seq != want {
			t.Errorf("of stream %q: got sequence %d, want %d", stream, m.Seq, want)
		}
	}
}

func TestParseLiveOfAnything(t *testing.T) {
	t.Parallel()
	for _, seq := range []string{"", "x", "-1", "1.5", "99999999999999999999"} {
		m := ParseLive(&nats.Msg{Header: nats.Header{headerSeq: {seq}, headerKinds: {"turn.completed"}}, Data: []byte("d")})
		if m.Seq != 0 || m.MayEndTurn || string(m.Data) != "d" {
			t.Errorf("sequence %q: got %+v, want a delta", seq, m)
		}
	}
}
