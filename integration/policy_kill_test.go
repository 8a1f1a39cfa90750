package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestPolicyKilledAnywhere kills the worker that diverts a turn t2 at each of
// its requests, before it and after it: as the holder of the running t1, and
// as the one that meets a parked t1. Another worker finishes, and everything is
// as if nothing had been.
func TestPolicyKilledAnywhere(t *testing.T) {
	t.Parallel()
	step := 3
	switch {
	case *faults:
		step = 1
	case testing.Short():
		step = 5
	}
	for _, meets := range []string{"running", "parked"} {
		for _, c := range policyCases[meets] {
			if c.busy == api.WhenBusyEnqueue {
				continue // it diverts nothing
			}
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s_%s_late_%t", meets, c.busy, late), func(t *testing.T) {
					t.Parallel()
					var all []*cutTurn
					k := 1
					for finished := false; !finished; k += step {
						cut := newCutTurn(t, c, meets == "parked")
						all = append(all, cut)
						finished = bustest.KilledAt(t, cut.server, k, late, cut.work)
					}
					if k < 10 {
						t.Errorf("it took fewer than %d requests, want more", k)
					}
					for _, cut := range all { // all wait at once for what the victims held
						cut.bundle.work(bustest.Open(t, cut.server))
					}
					for _, cut := range all {
						must(t, "after the kill", cut.course(cut.ctx), nil)
						cut.check()
					}
				})
			}
		}
	}
}

// cutTurn is one server on which a worker is killed over a turn t2.
type cutTurn struct {
	*bundle
	want policyCase
	k    *talker
	id   events.SessionID
	free sync.Once
}

func newCutTurn(t *testing.T, c policyCase, parks bool) *cutTurn {
	t.Helper()
	cut := &cutTurn{want: c, k: &talker{parks: parks}}
	var kill func()
	cut.bundle, cut.id, kill = setupTalk(t, cut.k, 1)
	if parks {
		cut.k.begins(cut.bundle, cut.id)
	}
	kill()
	return cut
}

// work has a worker on the victim's bus meet t2 while t1 is in its way, to the end of both.
func (c *cutTurn) work(ctx context.Context, victim *bus.Bus) error {
	w := c.newWorker(victim)
	if err := w.Start(ctx); err != nil {
		return err
	}
	err := c.course(ctx)
	now, cancel := context.WithCancel(c.ctx)
	cancel()
	w.Stop(now)
	return errors.Join(err, context.Cause(ctx)) // it may have died over its last acks
}

// course is what clients do: all of it may be done twice.
func (c *cutTurn) course(ctx context.Context) error {
	for _, step := range []struct {
		req   api.TurnRequest
		until func(*projector.State) bool
	}{
		{asksTurn("t1", "t1"), func(s *projector.State) bool { return knows(c.bundle, s, "t1") && len(s.Queue) == 0 }}, // it runs, or has ended
		{asksBusy("t2", c.want.busy), func(s *projector.State) bool { return knows(c.bundle, s, "t2") }},
	} {
		if _, err := c.Submit(c.ctx, c.id, step.req); err != nil {
			return err
		}
		if err := c.awaitUntil(ctx, c.id, step.until); err != nil {
			return err
		}
	}
	if c.want.busy != api.WhenBusyInterrupt {
		c.free.Do(func() { c.k.frees(c.bundle, c.id) })
	}
	if err := c.awaitUntil(ctx, c.id, func(s *projector.State) bool { return s.Idle() }); err != nil || c.want.busy != api.WhenBusyBranch {
		return err
	}
	_, err := c.Await(ctx, session.BranchOf(c.id, "t2"), "t2")
	return err
}

// awaitUntil is await that may end with ctx.
func (b *bundle) awaitUntil(ctx context.Context, id events.SessionID, ok func(*projector.State) bool) error {
	live, err := b.bus.Live(id, 1024)
	if err != nil {
		return err
	}
	defer live.Close()
	for !ok(b.state(id)) {
		select {
		case <-live.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// check wants what would have been without the kill.
func (c *cutTurn) check() {
	c.t.Helper()
	equal(c.t, "requests", requests(c.bundle, c.id, "t2"), 1)
	ends := make(map[events.TurnID][]string)
	for _, line := range turnLines(c.bundle, c.id) {
		if kind, rest, _ := strings.Cut(line, " "); kind == "completed" || kind == "diverted" {
			turn, how, _ := strings.Cut(rest, " ")
			ends[events.TurnID(turn)] = append(ends[events.TurnID(turn)], how)
		}
	}
	for _, turn := range []events.TurnID{"t1", "t2"} {
		equal(c.t, "ends of "+string(turn), len(ends[turn]), 1)
		line := fmt.Sprintf("completed %s %s", turn, ends[turn])
		for _, want := range strings.Split(c.want.history, "|") {
			if strings.HasPrefix(want, "completed "+string(turn)) || strings.HasPrefix(want, "diverted "+string(turn)) {
				line = want
			}
		}
		equal(c.t, "end of "+string(turn), strings.HasSuffix(line, string(turn)+" "+ends[turn][0]), true)
	}
	said := []string{"user t0", "assistant t0/0/model"}
	equalLists(c.t, "messages", c.messages(c.id), append(slices.Clone(said), strings.Split(c.want.messages, "|")...))
	verified(c.t, c.bus, c.id)
	if c.want.busy == api.WhenBusyBranch {
		branch := session.BranchOf(c.id, "t2")
		equalLists(c.t, "messages of the branch", c.messages(branch), append(said, "user t2", "assistant t2/0/model"))
		equal(c.t, "requests in the branch", requests(c.bundle, branch, "t2"), 1)
		verified(c.t, c.bus, branch)
	}
}

// TestBranchKilledAnywhere kills a host that opens a branch, whose nodes take
// several commits, at each of its requests; then two others finish it at once.
func TestBranchKilledAnywhere(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, kill := setupTalk(t, k, 1)
	var said []string
	for i := range 300 {
		said = append(said, fmt.Sprintf("n%d", i))
	}
	b.say(id, said...)
	k.begins(b, id)
	kill()
	hosts := []*session.Host{b.otherHost(), b.otherHost()}
	for _, late := range []bool{false, true} {
		for n, finished := 1, false; !finished; n++ {
			q := projector.QueuedTurn{ID: events.TurnID(fmt.Sprintf("b%d-%t", n, late)), Behind: "t1", Input: asksTurn("", "on").Input}
			finished = bustest.KilledAt(t, b.server, n, late, func(ctx context.Context, victim *bus.Bus) error {
				_, err := b.newHost(victim).Branch(ctx, id, q)
				return err
			})
			if finished && n < 5 {
				t.Errorf("a branch took %d requests, want more", n-1)
			}
			branch := session.BranchOf(id, q.ID)
			var wait sync.WaitGroup
			for _, h := range hosts {
				wait.Go(func() {
					got, err := h.Branch(b.ctx, id, q)
					must(t, "branch", err, nil)
					equal(t, "its id", got, branch)
				})
			}
			wait.Wait()
			s := b.state(branch)
			equal(t, "status", s.Status, projector.StatusOpen)
			path, err := s.Path()
			must(t, "path", err, nil)
			equal(t, "nodes", s.Nodes, 302)
			equal(t, "leaf", path[len(path)-1].ID, "n299")
			equal(t, "turns that wait", len(s.Queue), 1)
			equal(t, "input", s.Queue[0].Input.Parts[0].Text, "on")
			verified(t, b.bus, branch)
		}
	}
	_, err := b.Create(b.ctx, api.CreateRequest{ID: session.BranchOf(id, "taken")})
	must(t, "create", err, nil)
	_, err = b.Branch(b.ctx, id, projector.QueuedTurn{ID: "taken", Behind: "t1"})
	must(t, "a session of that id which is another's", err, api.ErrExists)
}
