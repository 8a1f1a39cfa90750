package internal_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/recheck"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// history appends commits to a log in memory.
type recheckHistory struct {
	t   *testing.T
	log *events.MemLog
	s   *projector.State
}

func (h *recheckHistory) add(kind events.ActorKind, list ...events.Event) {
	h.t.Helper()
	c := &events.Commit{
		ID: events.CommitID(fmt.Sprintf("01J5ZX%020d", h.s.Seq)), Session: "s", At: 1, Actor: events.Actor{Kind: kind, ID: "x"}, Events: list,
	}
	seq, err := h.log.Append(h.t.Context(), c, h.s.Seq)
	if err == nil {
		err = h.s.Apply(events.Entry{Seq: seq, Commit: c})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// record is a session with one turn, whose answer a node decided.
func record(t *testing.T) *recheckHistory {
	t.Helper()
	h := &recheckHistory{t, new(events.MemLog), projector.New("s")}
	h.add(events.ActorClient, events.Of("", &events.SessionOpened{}))
	h.add(events.ActorClient, turn.Request(h.s, "t1", events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})...)
	h.step(turn.Claim{Worker: "w1"})
	return h
}

func (h *recheckHistory) step(in turn.Input) {
	h.t.Helper()
	out, err := turn.Step(h.s, in)
	if err != nil {
		h.t.Fatal(err)
	}
	h.add(events.ActorNode, out.Events...)
}

func answer() turn.Input {
	return turn.Reply{ModelReplied: events.ModelReplied{Parts: []events.Part{{Kind: events.PartText, Text: "Done."}}, Stop: events.StopEnd}}
}

func check(t *testing.T, h *recheckHistory) (*recheck.Session, error) {
	t.Helper()
	c := &recheck.Session{ID: "s"}
	return c, c.Run(t.Context(), h.log, nil, nil)
}

// TestSame: a history that this program decides in the same way.
func TestSame(t *testing.T) {
	t.Parallel()
	h := record(t)
	h.step(answer())
	c, err := check(t, h)
	if err != nil || c.Difference != nil || c.Steps == 0 || c.Decisions < 2 {
		t.Fatalf("got %+v, %v, want no difference", c, err)
	}
	if got := c.Text(); !strings.HasPrefix(got, "s: same, ") {
		t.Errorf("text: got %q, want it the same", got)
	}
}

// TestDifferent: an answer that a node recorded as another end.
func TestDifferent(t *testing.T) {
	t.Parallel()
	h := record(t)
	out, err := turn.Step(h.s, answer())
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.Events {
		if p, ok := out.Events[i].Payload.(*events.TurnCompleted); ok {
			p.End = events.EndCancelled
		}
	}
	h.add(events.ActorNode, out.Events...)
	c, err := check(t, h)
	d := c.Difference
	if err != nil || d == nil || d.Seq != 4 || d.Recorded == nil || d.Recorded.Kind != events.KindTurnCompleted || d.Turn != "t1" {
		t.Fatalf("got %+v, %v, want a difference in turn.completed at 4", d, err)
	}
	for _, want := range []string{"s: different\n", "sequence 4.", "turn t1", "recorded      turn.completed", "this program  turn.completed"} {
		if !strings.Contains(c.Text(), want) {
			t.Errorf("text: got %s, want %q in it", c.Text(), want)
		}
	}
}

// gap is a log that lost its second commit.
type gap struct{ *events.MemLog }

func (g gap) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		for entry, err := range g.MemLog.Read(ctx, id, from) {
			if entry.Seq != 2 && !yield(entry, err) {
				return
			}
		}
	}
}

// TestDamaged: a history that does not fold, and one that does not exist.
func TestDamaged(t *testing.T) {
	t.Parallel()
	h := &recheckHistory{t, new(events.MemLog), projector.New("s")}
	h.add(events.ActorClient, events.Of("", &events.SessionOpened{}))
	for _, caller := range []string{"a", "b"} {
		h.add(events.ActorClient, events.Of("", &events.SessionGranted{To: caller, Rights: []events.SessionRight{"read"}}))
	}
	c := &recheck.Session{ID: "s"}
	if err := c.Run(t.Context(), gap{h.log}, nil, nil); !errors.Is(err, recheck.ErrDamaged) {
		t.Errorf("a commit is missing: got %v, want ErrDamaged", err)
	}
	h.log = new(events.MemLog)
	if _, err := check(t, h); !errors.Is(err, events.ErrNoSession) {
		t.Errorf("no history: got %v, want ErrNoSession", err)
	}
}

// TestReport sums results up, and writes them as a test run of JUnit.
func TestReport(t *testing.T) {
	t.Parallel()
	r := &recheck.Report{Skipped: map[string]int64{"b is missing": 1, "a is missing": 2}}
	r.Add(&recheck.Session{ID: "same", Decisions: 2, Steps: 3, Hooks: 1})
	r.Add(&recheck.Session{ID: "other", Decisions: 1, Steps: 1, Difference: &recheck.Difference{Event: "e.0", Seq: 7, Turn: "t1", Problem: "no <such> input"}})
	r.Add(&recheck.Session{File: "dir/broken.lash", Problem: "no archive & no records"})
	want := "hooks at 2 points not compared: a is missing\nhooks at 1 point not compared: b is missing\n" +
		"checked 3 sessions: 3 decisions of 4 steps compared, hooks ran again at 1 point, 1 difference\n"
	if got := r.Text(); got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
	path := filepath.Join(t.TempDir(), "junit.xml")
	if err := r.WriteJUnit(path, "lash-replay check"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var got struct {
		Suite struct {
			Name                    string `xml:"name,attr"`
			Tests, Failures, Errors int    `xml:",attr"`
			Cases                   []struct {
				Name    string   `xml:"name,attr"`
				Class   string   `xml:"classname,attr"`
				Failure *problem `xml:"failure"`
				Error   *problem `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(strings.NewReplacer("tests=", "Tests=", "failures=", "Failures=", "errors=", "Errors=").Replace(string(data))), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Suite
	if s.Name != "lash-replay check" || s.Tests != 3 || s.Failures != 1 || s.Errors != 1 || len(s.Cases) != 3 {
		t.Fatalf("suite: got %+v, want 3 tests with a failure and an error", s)
	}
	if c := s.Cases[0]; c.Name != "same" || c.Class != "lash-replay.check" || c.Failure != nil || c.Error != nil {
		t.Errorf("same: got %+v, want it passed", c)
	}
	if c := s.Cases[1]; c.Failure == nil || !strings.Contains(c.Failure.Message, "e.0") || !strings.Contains(c.Failure.Text, "no <such> input") || c.Error != nil {
		t.Errorf("other: got %+v, want a failure with both sides", c)
	}
	if c := s.Cases[2]; c.Name != "broken.lash" || c.Error == nil || c.Error.Message != "no archive & no records" || c.Failure != nil {
		t.Errorf("broken: got %+v, want an error under the name of the file", c)
	}
}

// TestTextOfResults: one line for what has no difference.
func TestTextOfResults(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]recheck.Session{
		"s: same, 1 decision\n":                      {ID: "s", Decisions: 1},
		"a.lash: cannot be checked: it is cut off\n": {ID: "s", File: "a.lash", Problem: "it is cut off"},
		"s: same, 2 decisions; nothing is compared from sequence 5 on, where the payload of event c.0 (model.replied) is redacted\n": {
			ID: "s", Decisions: 2, Redacted: 5, RedactedAt: "c.0", Absent: "model.replied",
		},
	} {
		if got := c.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
