package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestPolicyKilledAnywhere kills the worker that diverts a turn t2 before one of four of its requests and after another one: as the
// owner of the running t1, and as the worker that finds a parked t1. Another worker finishes, with the outcome of
// a run without a kill.
func TestPolicyKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, meets := range []string{"running", "parked"} {
		for _, c := range policyCases[meets] {
			if c.busy == api.WhenBusyEnqueue {
				continue // it diverts nothing
			}
			for first, late := range map[int]bool{1: false, 3: true} { // what servers have after a request is what they have before the next
				t.Run(fmt.Sprintf("%s_%s_late_%t", meets, c.busy, late), func(t *testing.T) {
					t.Parallel()
					var all []*cutTurn
					k := first
					for finished := false; !finished; k += 4 {
						cut := newCutTurn(t, c, meets == "parked")
						all = append(all, cut)
						finished = bustest.KilledAt(t, cut.Server, k, late, cut.work)
					}
					if k < 10 {
						t.Errorf("it took fewer than %d requests, want more", k)
					}
					for _, cut := range all { // all wait at once for the victim's work
						cut.StartWorker(bustest.Open(t, cut.Server))
					}
					for _, cut := range all {
						runtest.WantError(t, "after the kill", cut.course(cut.Ctx), nil)
						cut.check()
					}
				})
			}
		}
	}
}

// cutTurn is one server on which a worker is killed while it handles a turn t2.
type cutTurn struct {
	*harness.System
	want policyCase
	k    *blockingModel
	id   events.SessionID
	free sync.Once
}

func newCutTurn(t *testing.T, c policyCase, parks bool) *cutTurn {
	t.Helper()
	cut := &cutTurn{want: c, k: &blockingModel{parks: parks}}
	var kill func()
	cut.System, cut.id, kill = setupConversation(t, cut.k, 1)
	if parks {
		cut.k.awaitStart(cut.System, cut.id)
	}
	kill()
	return cut
}

// work has a worker on the victim's bus handle t2 while t1 is in its way, to the end of both.
func (c *cutTurn) work(ctx context.Context, victim *bus.Bus) error {
	w := c.NewWorker(victim)
	if err := w.Start(ctx); err != nil {
		return err
	}
	err := c.course(ctx)
	now, cancel := context.WithCancel(c.Ctx)
	cancel()
	w.Stop(now)
	return errors.Join(err, context.Cause(ctx)) // it may have died over its last acks
}

// course has the requests of the clients. A repeat of each is idempotent.
func (c *cutTurn) course(ctx context.Context) error {
	for _, step := range []struct {
		req   api.TurnRequest
		until func(*projector.State) bool
	}{
		{harness.TurnRequest("t1", "t1"), func(s *projector.State) bool { return hasTurn(c.System, s, "t1") && len(s.Queue) == 0 }}, // it runs, or has ended
		{harness.TurnWhenBusy("t2", c.want.busy), func(s *projector.State) bool { return hasTurn(c.System, s, "t2") }},
	} {
		if _, err := c.Submit(c.Ctx, c.id, step.req); err != nil {
			return err
		}
		if err := awaitUntil(ctx, c.System, c.id, step.until); err != nil {
			return err
		}
	}
	if c.want.busy != api.WhenBusyInterrupt {
		c.free.Do(func() { c.k.frees(c.System, c.id) })
	}
	if err := awaitUntil(ctx, c.System, c.id, func(s *projector.State) bool { return s.Idle() }); err != nil || c.want.busy != api.WhenBusyBranch {
		return err
	}
	_, err := c.Await(ctx, session.BranchOf(c.id, "t2"), "t2")
	return err
}

// awaitUntil is [harness.System.AwaitState] that ends with ctx.
func awaitUntil(ctx context.Context, b *harness.System, id events.SessionID, ok func(*projector.State) bool) error {
	live, err := b.Bus.Live(id, 1024)
	if err != nil {
		return err
	}
	defer live.Close()
	for !ok(b.StateOf(id)) {
		select {
		case <-live.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// check compares the outcome with that of a run without a kill.
func (c *cutTurn) check() {
	c.T.Helper()
	runtest.Equal(c.T, "requests", requests(c.System, c.id, "t2"), 1)
	ends := make(map[events.TurnID][]string)
	for _, line := range turnLines(c.System, c.id) {
		if kind, rest, _ := strings.Cut(line, " "); kind == "completed" || kind == "diverted" {
			turn, how, _ := strings.Cut(rest, " ")
			ends[events.TurnID(turn)] = append(ends[events.TurnID(turn)], how)
		}
	}
	for _, turn := range []events.TurnID{"t1", "t2"} {
		runtest.Equal(c.T, "ends of "+string(turn), len(ends[turn]), 1)
		line := fmt.Sprintf("completed %s %s", turn, ends[turn])
		for _, want := range strings.Split(c.want.history, "|") {
			if strings.HasPrefix(want, "completed "+string(turn)) || strings.HasPrefix(want, "diverted "+string(turn)) {
				line = want
			}
		}
		runtest.Equal(c.T, "end of "+string(turn), strings.HasSuffix(line, string(turn)+" "+ends[turn][0]), true)
	}
	messages := []string{"user t0", "assistant t0/0/model"}
	runtest.EqualLists(c.T, "messages", c.Messages(c.id), append(slices.Clone(messages), strings.Split(c.want.messages, "|")...))
	harness.VerifyHistory(c.T, c.Bus, c.id)
	if c.want.busy == api.WhenBusyBranch {
		branch := session.BranchOf(c.id, "t2")
		runtest.EqualLists(c.T, "messages of the branch", c.Messages(branch), append(messages, "user t2", "assistant t2/0/model"))
		runtest.Equal(c.T, "requests in the branch", requests(c.System, branch, "t2"), 1)
		harness.VerifyHistory(c.T, c.Bus, branch)
	}
}

// TestBranchKilledAnywhere kills a host that opens a branch, whose nodes take several commits, before each of its
// requests. Then two other hosts finish it at once.
func TestBranchKilledAnywhere(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, kill := setupConversation(t, k, 1)
	var messages []string
	for i := range 300 {
		messages = append(messages, fmt.Sprintf("n%d", i))
	}
	b.AppendTexts(id, messages...)
	k.awaitStart(b, id)
	kill()
	hosts := []*session.Host{b.OtherHost(), b.OtherHost()}
	for n, finished := 1, false; !finished; n++ {
		q := projector.QueuedTurn{ID: events.TurnID(fmt.Sprint("b", n)), Behind: "t1", Input: harness.TurnRequest("", "on").Input}
		finished = bustest.KilledAt(t, b.Server, n, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := b.NewHost(victim).Worker().ContinueInBranch(ctx, id, q)
			return err
		})
		if finished && n < 5 {
			t.Errorf("a branch took %d requests, want more", n-1)
		}
		branch := session.BranchOf(id, q.ID)
		var wait sync.WaitGroup
		for _, h := range hosts {
			wait.Go(func() {
				got, err := h.Worker().ContinueInBranch(b.Ctx, id, q)
				runtest.WantError(t, "branch", err, nil)
				runtest.Equal(t, "its id", got, branch)
			})
		}
		wait.Wait()
		s := b.StateOf(branch)
		runtest.Equal(t, "status", s.Status, projector.StatusOpen)
		path, err := s.Path()
		runtest.WantError(t, "path", err, nil)
		runtest.Equal(t, "nodes", s.Nodes, 302)
		runtest.Equal(t, "leaf", path[len(path)-1].ID, "n299")
		runtest.Equal(t, "turns that wait", len(s.Queue), 1)
		runtest.Equal(t, "input", s.Queue[0].Input.Parts[0].Text, "on")
		harness.VerifyHistory(t, b.Bus, branch)
	}
	_, err := b.Create(b.Ctx, api.CreateRequest{ID: session.BranchOf(id, "taken")})
	runtest.WantError(t, "create", err, nil)
	_, err = b.Worker().ContinueInBranch(b.Ctx, id, projector.QueuedTurn{ID: "taken", Behind: "t1"})
	runtest.WantError(t, "a session of that id which is another's", err, api.ErrExists)
}
