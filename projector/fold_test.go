package projector_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// head encodes the snapshot of a copy. So s itself still returns its segments later.
func head(t interface{ Fatal(...any) }, s *projector.State) []byte {
	data, _, err := s.Clone().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func fold(t *rapid.T, s *projector.State, log []events.Entry) *projector.State {
	for _, e := range log {
		runtest.NoError(t, s.Apply(e))
	}
	return s
}

func same(t *rapid.T, what string, got, want []byte) {
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got head %x, want %x", what, got, want)
	}
}

// store keeps segments by reference, as a blob store does.
type store map[events.BlobRef][]byte

// save encodes s and stores its fresh segments.
func (st store) save(t *rapid.T, s *projector.State) []byte {
	data, fresh, err := s.Snapshot()
	runtest.NoError(t, err)
	for _, seg := range fresh {
		if got := projector.RefOf(seg.Data); got != seg.Ref {
			t.Fatalf("segment reference: got %v, want %v", seg.Ref, got)
		}
		st[seg.Ref] = seg.Data
	}
	return data
}

func (st store) attach(t *rapid.T, s *projector.State) {
	for _, ref := range s.Missing() {
		runtest.NoError(t, s.Attach(ref, st[ref]))
	}
	if got := s.Missing(); len(got) != 0 {
		t.Fatalf("missing after attaching: got %v, want none", got)
	}
}

func restore(t *rapid.T, data []byte) *projector.State {
	s, err := projector.Restore(data)
	runtest.NoError(t, err)
	return s
}

// TestFold compares every way to the end of a history with every other.
func TestFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drive(t, 60, func(s *projector.State, _ events.Entry) {
			if err := s.Check(); err != nil {
				t.Fatalf("at %d: %v", s.Seq, err)
			}
			read(t, s) // caches must not change later results
		})
		want := head(t, d.s)
		k := rapid.IntRange(0, len(d.log)).Draw(t, "k")
		s := fold(t, projector.New(sid), d.log[:k])
		st := make(store)
		data := st.save(t, s)

		same(t, "one fold", head(t, fold(t, projector.New(sid), d.log)), want)
		same(t, "prefix and rest", head(t, fold(t, s, d.log[k:])), want)

		partial := fold(t, restore(t, data), d.log[k:])
		same(t, "partial state", head(t, partial), want)
		st.attach(t, partial)
		same(t, "attached at the end", head(t, partial), want)

		whole := restore(t, data)
		st.attach(t, whole)
		fold(t, whole, d.log[k:])
		same(t, "attached at the snapshot", head(t, whole), want)
		for name, other := range map[string]*projector.State{"partial": partial, "whole": whole, "prefix": s} {
			sameReading(t, name, other, d.s)
		}
	})
}

// sameReading compares the results of states' bodies.
func sameReading(t *rapid.T, name string, a, b *projector.State) {
	if err := a.Check(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	read := func(s *projector.State) []any {
		view, err := s.View()
		runtest.NoError(t, err)
		prompt, err := s.Prompt()
		runtest.NoError(t, err)
		records, err := s.Records()
		runtest.NoError(t, err)
		keyed, err := s.Appended("key")
		runtest.NoError(t, err)
		asked, known, err := s.FindRequest("key")
		runtest.NoError(t, err)
		return []any{view.Messages, view.Chronology(), prompt, records, keyed, asked, known}
	}
	got, want := encoded(t, read(a)...), encoded(t, read(b)...)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: readings differ: got %q, want %q", name, got, want)
	}
}

// encoded makes values comparable that differ in nil and empty slices only.
func encoded(t *rapid.T, values ...any) []byte {
	var all []byte
	for _, v := range values {
		data, err := events.EncodePayload(v)
		runtest.NoError(t, err)
		all = append(all, data...)
	}
	return all
}

// TestFoldSnapshots: every segment is returned once, whatever clones and conflicts occur in between.
func TestFoldSnapshots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st, last := make(store), []byte(nil)
		d := drive(t, 60, func(s *projector.State, _ events.Entry) {
			if rapid.Bool().Draw(t, "clone") {
				if _, _, err := s.Clone().Snapshot(); err != nil { // its segments are lost
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "save") {
				last = st.save(t, s)
			}
		})
		if last == nil {
			return
		}
		s := restore(t, last)
		st.attach(t, s)
		same(t, "restored", head(t, fold(t, s, d.log[s.Seq:])), head(t, d.s))
	})
}

// TestClone folds a state and its clone alternately, each with its own events.
func TestClone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := drive(t, 40, nil).log
		s := fold(t, projector.New(sid), base)
		read(t, s) // fills the caches
		before := head(t, s)
		c, still := s.Clone(), s.Clone()
		ways := [2][]events.Entry{
			resume(t, fold(t, projector.New(sid), base), 30).log,
			resume(t, fold(t, projector.New(sid), base), 30).log,
		}
		for i := range max(len(ways[0]), len(ways[1])) {
			for j, state := range []*projector.State{s, c} {
				if i < len(ways[j]) {
					fold(t, state, ways[j][i:i+1])
				}
			}
		}
		same(t, "clone left alone", head(t, still), before)
		for j, state := range []*projector.State{s, c} {
			want := fold(t, fold(t, projector.New(sid), base), ways[j])
			same(t, "gone on", head(t, state), head(t, want))
			sameReading(t, "gone on", state, want)
			sameReading(t, "fresh clone", state.Clone(), want)
		}
	})
}

// read calls everything that a state caches.
func read(t *rapid.T, s *projector.State) {
	_, err := s.Prompt()
	runtest.NoError(t, err)
	_, err = s.Node("m1")
	runtest.NoError(t, err)
}

// TestCloneSteps takes one more step at a state and at its clone, at every length. So shared slices have spare
// capacity at some lengths and none at others.
func TestCloneSteps(t *testing.T) {
	t.Parallel()
	step := func(h *history, tag string) {
		at := h.Seq
		id := func(s string) string { return fmt.Sprintf("%s-%s-%d", tag, s, at) }
		settled, pending, done := events.InputID(id("settled")), events.InputID(id("pending")), events.TurnID(id("done"))
		h.add("", &events.InputInjected{Input: settled, Role: events.RoleUser}, &events.InputInjected{Input: pending, Role: events.RoleUser})
		h.add("", &events.InputAccepted{Inputs: []events.InputID{settled}, At: events.AtStart})
		h.add(events.TurnID(id("waits")), &events.TurnRequested{})
		h.add(done, &events.TurnRequested{}).add(done, &events.TurnCompleted{End: events.EndCancelled})
		h.add("", &events.FrameOpened{Frame: events.FrameID(id("f")), Reason: "x"}).say(id("m"), id("n"))
		prompt(t, h.State)
	}
	h, clone := begin(t), begin(t)
	for range 60 {
		want := [2]*projector.State{}
		for i, tag := range []string{"original", "clone"} {
			alone := begin(t)
			for alone.Seq < h.Seq {
				step(alone, "original")
			}
			step(alone, tag)
			want[i] = alone.State
		}
		clone.State = h.Clone()
		step(clone, "clone")
		step(h, "original")
		for i, got := range []*projector.State{h.State, clone.State} {
			if got, want := head(t, got), head(t, want[i]); !bytes.Equal(got, want) {
				t.Fatalf("head at %d: got %q, want %q", h.Seq, got, want)
			}
			if got, want := prompt(t, got).Ref, prompt(t, want[i]).Ref; got != want {
				t.Fatalf("prompt at %d: got %v, want %v", h.Seq, got, want)
			}
		}
	}
}

// TestCloneParallel reads clones in goroutines, for the race detector.
func TestCloneParallel(t *testing.T) {
	t.Parallel()
	s := chain(t, 200)
	done := make(chan []byte)
	for range 4 {
		c := s.Clone()
		go func() {
			p, err := c.Prompt()
			if err != nil {
				t.Error(err)
			}
			_, _, err = c.Snapshot()
			runtest.WantError(t, "snapshot", err, nil)
			done <- []byte(p.Ref.Digest)
		}()
	}
	want := <-done
	for range 3 {
		if got := <-done; !bytes.Equal(got, want) {
			t.Errorf("digest: got %s, want %s", got, want)
		}
	}
}

// TestApplyUncommitted folds a commit event by event and as a whole.
func TestApplyUncommitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mirror := projector.New(sid)
		drive(t, 40, func(s *projector.State, e events.Entry) {
			if e.Commit.Actor.Kind == events.ActorClient {
				fold(t, mirror, []events.Entry{e})
				return
			}
			ahead := mirror.Clone()
			for i := range e.Commit.Events {
				ahead.ApplyUncommitted(&e.Commit.Events[i], e.Commit.At)
			}
			if _, _, err := ahead.Snapshot(); err == nil {
				t.Fatal("snapshot of a state ahead of the log: got one, want an error")
			}
			if err := ahead.Apply(events.Entry{Seq: ahead.Seq + 1, Commit: e.Commit}); err == nil {
				t.Fatal("apply to a state ahead of the log: got nil, want an error")
			}
			runtest.NoError(t, ahead.Committed(e.Commit))
			fold(t, mirror, []events.Entry{e})
			same(t, "ahead", head(t, ahead), head(t, mirror))
			if !reflect.DeepEqual(ahead.Missing(), mirror.Missing()) {
				t.Fatalf("missing: got %v, want %v", ahead.Missing(), mirror.Missing())
			}
		})
	})
}
