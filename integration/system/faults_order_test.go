package system

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// accepted is a turn that a client has an acceptance of.
type accepted struct {
	turn events.TurnID
	seq  events.Seq
}

// orders are the submits of one client: by session, in the order of the responses.
type orders map[events.SessionID][]accepted

// submitter is a host or a client.
type submitter interface {
	SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitResponse, error)
}

// submitAll submits turns from first on to each session in turn, without a wait for their ends.
func submitAll(ctx context.Context, by submitter, sessions, first, turns int) (orders, error) {
	list := make(orders)
	for k := range turns {
		for i := range sessions {
			id, turn := workloadSession(i), workloadTurn(first+k)
			withReceipt, receipt := api.WithReceipt(ctx, id)
			a, err := by.SubmitTurn(withReceipt, id, api.TurnRequest{ID: turn, Input: workloadInput(turn)})
			if err != nil {
				return list, fmt.Errorf("submit %s to %s: %w", turn, id, err)
			}
			if a.Seq != receipt.Seq() {
				return list, fmt.Errorf("submit %s to %s: got sequence %d, and %d on the receipt", turn, id, a.Seq, receipt.Seq())
			}
			list[id] = append(list[id], accepted{turn, a.Seq})
		}
	}
	return list, nil
}

// TestOrderOfLog has eight clients, half of them over NATS, submit turns to the same few sessions without a wait
// for each other, while nodes are killed and replaced. Turns run in the order of the log, which is the order of
// the responses.
func TestOrderOfLog(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const clients, sessions = 8, 3
		each := s.share(5, 2)
		w := s.wakeFixture(0)
		w.gate.open()
		for i := range sessions {
			s.Open(api.CreateRequest{ID: workloadSession(i)})
		}
		var processes []*child
		spawn := func() {
			processes = append(processes, w.process(childConfig{Round: 1 + len(processes)}))
			processes[len(processes)-1].awaitLine(s.Ctx, "serves")
		}
		for range 2 {
			w.start()
			spawn()
		}
		var all sync.WaitGroup
		lists, errs := make([]orders, clients), make([]error, clients)
		for n := range clients {
			by := submitter(s.NewHost(s.connect()))
			if n%2 == 1 {
				by = harness.Dial(s.T, harness.OpenReader(s.T, bus.Config{URL: s.url}))
			}
			all.Go(func() { lists[n], errs[n] = submitAll(s.Ctx, by, sessions, n*each, each) })
		}
		turns := clients * each
		for n := range 4 {
			s.AwaitPolling("further turns", func() bool { return s.turnsEnded(sessions) >= (n+1)*sessions*turns/6 })
			if n%2 == 0 {
				w.kills[len(w.kills)-2]()
				w.start()
			} else {
				processes[len(processes)-2].signal(syscall.SIGKILL)
				spawn()
			}
		}
		all.Wait()
		for n := range clients {
			runtest.WantError(s.T, "client", errs[n], nil)
		}
		s.AwaitPolling("the ends of all turns", func() bool { return s.turnsEnded(sessions) == sessions*turns })
		for _, c := range processes {
			_ = c.cmd.Process.Kill() // or it was killed before
		}
		w.audit(sessions, turns)
		for i := range sessions {
			s.inOrder(workloadSession(i), turns, lists)
		}
	})
}

// turnsEnded is the number of turns that have ended in all.
func (s *site) turnsEnded(sessions int) (n int) {
	s.T.Helper()
	for i := range sessions {
		state := s.StateOf(workloadSession(i))
		if n += int(state.Turns); state.Turn() != nil {
			n--
		}
	}
	return n
}

// inOrder checks that the turns of a history start in the order of their requests, and that the clients have the
// same order.
func (s *site) inOrder(id events.SessionID, turns int, lists []orders) {
	s.T.Helper()
	var requested, started []events.TurnID
	at := make(map[events.TurnID]events.Seq)
	for e, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
		runtest.WantError(s.T, "read", err, nil)
		for _, ev := range e.Commit.Events {
			switch ev.Payload.(type) {
			case *events.TurnRequested:
				requested, at[ev.Turn] = append(requested, ev.Turn), e.Seq
			case *events.TurnStarted:
				if !slices.Contains(started, ev.Turn) {
					started = append(started, ev.Turn)
				}
			}
		}
	}
	runtest.Equal(s.T, "requests", len(requested), turns)
	runtest.EqualLists(s.T, "starts of "+string(id), started, requested)
	for n, list := range lists {
		for i, got := range list[id] {
			runtest.Equal(s.T, fmt.Sprintf("sequence that client %d was told of %s", n, got.turn), got.seq, at[got.turn])
			if i > 0 && got.seq <= list[id][i-1].seq {
				s.T.Errorf("client %d: got %s in front of %s, which was answered first", n, got.turn, list[id][i-1].turn)
			}
		}
	}
}
