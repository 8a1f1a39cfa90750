package projector_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// ulidOf is the n-th of a sequence of valid commit ids.
func ulidOf(n int) events.CommitID {
	return events.CommitID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G%04d", n))
}

// The prompt of every reply can be rebuilt, whatever occurs between and inside commits.
func TestVerifierAcceptsHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drive(t, 60, nil)
		v := projector.NewVerifier(sid)
		for i, e := range d.log {
			e.Commit.ID = ulidOf(i)
			for _, found := range append(v.Apply(e), v.Check()...) {
				if found.Event >= 0 && e.Commit.Events[found.Event].Kind == events.KindModelFailed {
					continue // the driver's failures have no prompt
				}
				t.Fatalf("got %+v", found)
			}
		}
		if v.State().Seq != d.s.Seq {
			t.Errorf("got sequence %d, want %d", v.State().Seq, d.s.Seq)
		}
	})
}

// turnOf is a session of one turn whose reply follows a configuration and a message in the same commit.
func turnOf(t *testing.T, change func(*events.PromptRef)) []events.Entry {
	t.Helper()
	s := projector.New(sid)
	ahead := func(list []events.Event) *events.Commit {
		for i := range list {
			s.ApplyUncommitted(&list[i], 5)
		}
		c := &events.Commit{ID: ulidOf(int(s.Seq)), Session: sid, At: 5, Events: list}
		runtest.NoError(t, s.Committed(c))
		return c
	}
	first := ahead([]events.Event{events.Of("", &events.SessionOpened{}), events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})})
	list := []events.Event{events.Of("", &events.SessionConfigured{Config: events.Config{Model: "m2"}}), events.Of("", &events.GraphAppended{
		Nodes: []events.NewNode{{ID: "n1", Kind: events.NodeMessage, Message: message("n1", events.RoleUser, text("between"))}},
	})}
	for i := range list {
		s.ApplyUncommitted(&list[i], 5)
	}
	prompt, err := s.Prompt()
	runtest.NoError(t, err)
	change(&prompt.Ref)
	list = append(list, events.Of("t1", &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopEnd}))
	second := &events.Commit{ID: ulidOf(2), Session: sid, At: 5, Events: list}
	return []events.Entry{{Seq: 1, Commit: first}, {Seq: 2, Commit: second}}
}

func TestVerifierPrompt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*events.PromptRef)
		want   string // empty if accepted
	}{
		{"as_recorded", func(*events.PromptRef) {}, ""},
		{"digest", func(r *events.PromptRef) { r.Digest = "beef" }, "has digest beef, the history gives "},
		{"older_leaf", func(r *events.PromptRef) { r.Leaf = "u-t1" }, "the history gives "},
		{"no_leaf", func(r *events.PromptRef) { r.Leaf = "" }, "the history gives "},
		{"unknown_leaf", func(r *events.PromptRef) { r.Leaf = "n9" }, "there is no node n9"},
		{"frame", func(r *events.PromptRef) { r.Frame = "f9" }, "there is no frame f9"},
		{"catalog", func(r *events.PromptRef) { r.Catalog = 9 }, "there is no tool catalogue of generation 9"},
		{"config", func(r *events.PromptRef) { r.Config = 9 }, "no configuration was set at sequence 9"},
		{"older_config", func(r *events.PromptRef) { r.Config = 1 }, "the history gives "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []projector.Violation
			v := projector.NewVerifier(sid)
			for _, e := range turnOf(t, tc.change) {
				got = append(got, v.Apply(e)...)
			}
			if tc.want == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want none", got)
				}
				return
			}
			if len(got) != 1 || got[0].Check != projector.RulePrompt || got[0].Seq != 2 || got[0].Event != 2 || !strings.Contains(got[0].Problem, tc.want) {
				t.Errorf("got %+v, want one at 2.2 with %q", got, tc.want)
			}
		})
	}
}

func TestVerifierIDs(t *testing.T) {
	t.Parallel()
	opened := []events.Event{events.Of("", &events.SessionOpened{})}
	note := []events.Event{events.Of("", &events.SessionClosed{})}
	entry := func(seq events.Seq, id events.CommitID, list []events.Event) events.Entry {
		return events.Entry{Seq: seq, Commit: &events.Commit{ID: id, Session: sid, Events: list}}
	}
	for _, tc := range []struct {
		name string
		log  []events.Entry
		want projector.Rule
	}{
		{"twice", []events.Entry{entry(1, ulidOf(1), opened), entry(2, ulidOf(1), note)}, projector.RuleCommitID},
		{"no_ulid", []events.Entry{entry(1, "c1", opened)}, projector.RuleCommitID},
		{"small_letters", []events.Entry{entry(1, "01arz3ndektsv4rrffq69g0001", opened)}, projector.RuleCommitID},
		{"too_large", []events.Entry{entry(1, "81ARZ3NDEKTSV4RRFFQ69G0001", opened)}, projector.RuleCommitID},
		{"hole", []events.Entry{entry(1, ulidOf(1), opened), entry(3, ulidOf(3), note), entry(4, ulidOf(4), note)}, projector.RuleSequence},
		{"other_session", []events.Entry{{Seq: 1, Commit: &events.Commit{ID: ulidOf(1), Session: "s9", Events: opened}}}, projector.RuleSequence},
		{"no_base", []events.Entry{entry(1, ulidOf(1), []events.Event{events.Of("", &events.SessionOpened{Base: events.BlobRef{Digest: strings.Repeat("0", 64), Size: 1}})})}, projector.RuleFold},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []projector.Violation
			v := projector.NewVerifier(sid)
			for _, e := range tc.log {
				got = append(got, v.Apply(e)...)
			}
			if len(got) != 1 || got[0].Check != tc.want || got[0].Event != -1 {
				t.Errorf("got %+v, want one of %s", got, tc.want)
			}
		})
	}
}

// TestVerifierFindsRepetitions: an invariant that a commit breaks is named at this commit, also where what it repeats is
// in an earlier segment or book. A check of the whole state finds the same.
func TestVerifierFindsRepetitions(t *testing.T) {
	if projector.Invariants {
		t.Skip("this build does not let broken histories be folded")
	}
	t.Parallel()
	const turns, at = 200, 150
	note := func(id string) events.Event {
		return events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: events.NodeID(id), Kind: events.NodeMessage, Message: message(id, events.RoleUser, text("x"))}}})
	}
	turn := func(id events.TurnID) []events.Event {
		return []events.Event{
			note("n-" + string(id)), events.Of(id, &events.TurnRequested{}), events.Of(id, &events.TurnStarted{Attempt: 1, Worker: "w1"}),
			events.Of(id, &events.TurnCompleted{End: events.EndFinished}),
		}
	}
	for name, tc := range map[string]struct {
		broken []events.Event
		want   string
	}{
		"none":     {turn("other"), ""},
		"old_node": {[]events.Event{note("n-t3")}, "node n-t3 occurs twice"},
		"new_node": {[]events.Event{note("n-t149")}, "node n-t149 occurs twice"},
		"old_turn": {turn("t3")[1:3], "turn t3 occurs twice, the second time running"},
		"new_turn": {turn("t149")[1:2], "turn t149 occurs twice, the second time queued"},
		"no_leaf":  {[]events.Event{events.Of("", &events.GraphBranched{Leaf: "n-none"})}, "leaf n-none does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := projector.NewVerifier(sid)
			for i := range turns {
				list := turn(events.TurnID(fmt.Sprintf("t%d", i)))
				switch i {
				case 0:
					list = []events.Event{events.Of("", &events.SessionOpened{})}
				case at:
					list = tc.broken
				}
				found := v.Apply(events.Entry{Seq: events.Seq(i + 1), Commit: &events.Commit{ID: ulidOf(i), Session: sid, Events: list}})
				found = append(found, v.Check()...)
				if whole := v.CheckWhole(); (len(whole) > 0) != (tc.want != "" && i >= at) {
					t.Fatalf("whole state at %d: got %+v", i, whole)
				}
				if want := i == at && tc.want != ""; i <= at && (len(found) > 0) != want || want && !strings.Contains(found[0].Problem, tc.want) {
					t.Fatalf("at %d: got %+v, want %q at %d", i, found, tc.want, at)
				}
			}
		})
	}
}
