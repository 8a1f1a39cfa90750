package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
)

// TestNames parses what was built, for every prefix and id that the doors let through.
func TestNames(t *testing.T) {
	t.Parallel()
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		n := names{token.Draw(t, "prefix")}
		session, id := events.SessionID(token.Draw(t, "session")), token.Draw(t, "id")
		class := Class(rapid.SampledFrom([]string{"turn", "tool", "task", "archive"}).Draw(t, "class"))
		if got, ok := n.sessionOf(n.nextStream(session, rapid.StringMatching(`[0-9A-Z]{0,26}`).Draw(t, "nonce"))); !ok || got != session {
			t.Errorf("stream: got %s %v, want %s", got, ok, session)
		}
		if got, gotID, ok := n.parseWork(n.work(class, session, id)); !ok || got != session || gotID != id {
			t.Errorf("work: got %s %s %v, want %s %s", got, gotID, ok, session, id)
		}
		for _, subject := range []string{n.timerAt(session, id), n.timerDue(session, id)} {
			if got, gotID, ok := n.parseTimer(subject); !ok || got != session || gotID != id {
				t.Errorf("timer: got %s %s %v, want %s %s", got, gotID, ok, session, id)
			}
		}
		if got, ok := n.parseDirty(n.dirty(session)); !ok || got != session {
			t.Errorf("dirty: got %s %v, want %s", got, ok, session)
		}
		if _, _, ok := n.parseWork(n.dirty(session)); ok {
			t.Error("a mark was read as work")
		}
	})
}

func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	n := names{"lash"}
	for _, subject := range []string{"", "lash.work.turn.s1", "lash.work.turn.s1.t1.x", "other.work.turn.s1.t1", "lash.s.s1.turn"} {
		if session, id, ok := n.parseWork(subject); ok {
			t.Errorf("work %q: got %s %s, want a refusal", subject, session, id)
		}
	}
	for _, subject := range []string{"", "lash.timer.at.s1", "lash.timer.in.s1.t1", "lash.timer.at.s1.t1.x", "other.timer.at.s1.t1", "lash.work.turn.s1.t1"} {
		if session, id, ok := n.parseTimer(subject); ok {
			t.Errorf("timer %q: got %s %s, want a refusal", subject, session, id)
		}
	}
	for _, stream := range []string{"", "lash-work", "lash-sessions", "KV_lash-s-x", "other-s-x"} {
		if id, ok := n.sessionOf(stream); ok {
			t.Errorf("stream %q: got %s, want a refusal", stream, id)
		}
	}
	if _, ok := n.parseDirty("lash.work.turn.s1.t1"); ok {
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
		{n.poke("w1"), "lash.poke.w1"},
		{n.room(ClassTurn), "lash.room.turn"},
		{n.deadAll(), "lash.dead.>"},
		{n.dead(ClassTurn, "s1", "t1"), "lash.dead.turn.s1.t1"},
		{n.triesAll(), "lash.tries.>"},
		{n.tries(ClassTurn, "s1", "t1"), "lash.tries.turn.s1.t1"},
		{n.timersDue(), "lash.timer.due.>"},
		{n.timerAt("s1", "t1"), "lash.timer.at.s1.t1"},
		{n.timerDue("s1", "t1"), "lash.timer.due.s1.t1"},
		{n.commit(&events.Commit{Session: "s1", Events: []events.Event{events.Of("t1", &events.TurnStarted{})}}), "lash.s.s1.turn"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

func TestParseLiveOfAnything(t *testing.T) {
	t.Parallel()
	for _, seq := range []string{"", "x", "-1", "1.5", "99999999999999999999"} {
		m := ParseLive(&nats.Msg{Header: nats.Header{headerSeq: {seq}, headerKinds: {"turn.completed"}}, Data: []byte("d")})
		if m.Seq != 0 || m.Ends || string(m.Data) != "d" {
			t.Errorf("sequence %q: got %+v, want a delta", seq, m)
		}
	}
}
