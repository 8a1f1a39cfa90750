package remote

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestCalls plays messages of nodes and ends of tools in any order against a model. Each id runs once at most. A call
// that ended is answered with its outcome until that is recorded or old, and as forgotten afterwards.
func TestCalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCalls(time.Minute)
		now := time.Unix(0, 0)
		const running, kept, dropped = 1, 2, 3
		model, over := make(map[wire.CallID]int), make(map[wire.CallID]time.Time)
		draining := false
		id := func(t *rapid.T) wire.CallID {
			return wire.CallID{Session: "s", Call: events.EffectID(fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "call")))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				in := wire.Call{CallID: id(t), Again: rapid.Bool().Draw(t, "again")}
				run, answer := c.join(&in, "reply", func(error) {}, accept)
				if want := model[in.CallID] == 0 && !draining; run != want {
					t.Fatalf("call %s in state %d: runs %v, want %v", in.Call, model[in.CallID], run, want)
				}
				switch state := model[in.CallID]; {
				case run:
					model[in.CallID] = running
				case state == 0 && (answer.Error == nil || answer.Error.Code != wire.CodeDraining),
					state == running && answer.Last(),
					state == kept && (answer.Outcome == nil || answer.Outcome.Text != string(in.Call)),
					state == dropped && !answer.Forgotten:
					t.Fatalf("call %s in state %d: got %+v", in.Call, state, answer)
				}
			},
			"end": func(t *rapid.T) {
				call := id(t)
				if model[call] != running {
					t.Skip("it does not run")
				}
				if replies := c.end(call, &wire.Outcome{Text: string(call.Call)}, now); len(replies) == 0 {
					t.Fatal("nobody gets the outcome")
				}
				model[call], over[call] = kept, now
			},
			"recorded": func(t *rapid.T) {
				call := id(t)
				c.recorded(call)
				if model[call] == kept {
					model[call] = dropped
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
				c.forgetOld(now)
				for call, state := range model {
					if state == kept && now.Sub(over[call]) > time.Minute {
						model[call] = dropped
					}
				}
			},
			"drain": func(*rapid.T) {
				c.drain()
				draining = true
			},
			"": func(t *rapid.T) {
				runs, bytes := 0, 0
				for call, state := range model {
					switch state {
					case running:
						runs++
					case kept:
						bytes += len(call.Call)
					}
				}
				running, ended, _ := c.counts()
				if running != int64(runs) || ended != int64(len(over)) || c.bytes != bytes {
					t.Fatalf("running %d, ended %d, %d bytes; want %d, %d, %d", running, ended, c.bytes, runs, len(over), bytes)
				}
				select {
				case <-c.idle:
					if runs > 0 {
						t.Fatal("it is drained while calls run")
					}
				default:
					if draining && runs == 0 {
						t.Fatal("it is not drained, and nothing runs")
					}
				}
			},
		})
	})
}

// TestKeptBytes ends calls with large outcomes: the oldest outcomes are dropped, and their ids stay known.
func TestKeptBytes(t *testing.T) {
	t.Parallel()
	c := newCalls(time.Hour)
	text := string(make([]byte, (900 << 10)))
	n := wire.MaxKeptBytes/(900<<10) + 3
	for i := range n {
		in := wire.Call{CallID: wire.CallID{Call: events.EffectID(fmt.Sprint(i))}}
		c.join(&in, "reply", nil, accept)
		c.end(in.CallID, &wire.Outcome{Text: text}, time.Now())
	}
	if c.bytes > wire.MaxKeptBytes {
		t.Errorf("kept: %d bytes, limit is %d", c.bytes, wire.MaxKeptBytes)
	}
	for call, want := range map[int]bool{0: true, n - 1: false} {
		in := wire.Call{CallID: wire.CallID{Call: events.EffectID(fmt.Sprint(call))}}
		if _, answer := c.join(&in, "reply", nil, accept); answer.Forgotten != want {
			t.Errorf("call %d: forgotten is %v, want %v", call, answer.Forgotten, want)
		}
	}
}

// TestForgottenIDs ends so many calls that ids are dropped. A call that may be one of them does not run.
func TestForgottenIDs(t *testing.T) {
	t.Parallel()
	c := newCalls(time.Hour)
	for i := range wire.MaxKnownCalls + 1 {
		in := wire.Call{CallID: wire.CallID{Call: events.EffectID(fmt.Sprint(i))}}
		c.join(&in, "reply", nil, accept)
		c.end(in.CallID, &wire.Outcome{}, time.Now())
	}
	for again, want := range map[bool]bool{true: false, false: true} {
		in := wire.Call{CallID: wire.CallID{Call: events.EffectID(fmt.Sprint("new", again))}, Again: again}
		run, answer := c.join(&in, "reply", nil, accept)
		if run != want || answer.Forgotten == want {
			t.Errorf("again %v: runs %v, forgotten %v; want to run: %v", again, run, answer.Forgotten, want)
		}
	}
}

// accept refuses no call.
func accept() *wire.Error { return nil }

// TestRefusedCallHasNotRun sends a call that the instance would refuse now, for its tool or its placement, in each state
// that the call may have. What the instance knows of the call comes first: a refused call has not run.
func TestRefusedCallHasNotRun(t *testing.T) {
	t.Parallel()
	id := wire.CallID{Session: "s", Call: "c"}
	refuse := func() *wire.Error { return &wire.Error{Code: wire.CodeNotOwner} }
	for name, c := range map[string]struct {
		before func(*calls)
		again  bool
		want   wire.Progress
	}{
		"running":                {func(*calls) {}, false, wire.Progress{}},
		"outcome":                {func(c *calls) { c.end(id, &wire.Outcome{Text: "o"}, time.Now()) }, true, wire.Progress{Outcome: &wire.Outcome{Text: "o"}}},
		"outcome_dropped":        {func(c *calls) { c.end(id, &wire.Outcome{}, time.Now()); c.recorded(id) }, true, wire.Progress{Forgotten: true}},
		"id_forgotten":           {forget(id), true, wire.Progress{Forgotten: true}},
		"id_forgotten_and_drain": {func(c *calls) { forget(id)(c); c.drain() }, true, wire.Progress{Forgotten: true}},
		"another_id_forgotten":   {forget(id), false, wire.Progress{Error: refuse()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := newCalls(time.Hour)
			known.join(&wire.Call{CallID: id}, "first", nil, accept)
			c.before(known)
			run, got := known.join(&wire.Call{CallID: id, Again: c.again}, "second", nil, refuse)
			if run || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %+v, want false, %+v", run, got, c.want)
			}
		})
	}
}

// forget ends the call, and as many others as make the instance forget its id.
func forget(id wire.CallID) func(*calls) {
	return func(c *calls) {
		c.end(id, &wire.Outcome{}, time.Now())
		for n := range wire.MaxKnownCalls {
			other := wire.CallID{Session: "other", Call: events.EffectID(fmt.Sprint(n))}
			c.join(&wire.Call{CallID: other}, "reply", nil, accept)
			c.end(other, &wire.Outcome{}, time.Now())
		}
	}
}

// TestRepliesAreBounded joins a call very often: the last 64 reply subjects wait, the newest last, each once.
func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	c, id := newCalls(time.Minute), wire.CallID{Session: "s", Call: "c"}
	for n := range 1000 {
		if run, _ := c.join(&wire.Call{CallID: id}, fmt.Sprint("r", n), func(error) {}, accept); run != (n == 0) {
			t.Fatalf("message %d: run %v", n, run)
		}
	}
	c.join(&wire.Call{CallID: id}, "r990", func(error) {}, accept)
	if list := c.readers(); len(list) != wire.MaxReplies || list[0] != "r936" || c.newest(id) != "r990" || slices.Index(list, "r990") != wire.MaxReplies-1 {
		t.Errorf("got %d from %s to %s, want the last %d", len(list), list[0], c.newest(id), wire.MaxReplies)
	}
}
