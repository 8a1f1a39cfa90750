package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/watch"
)

// accepted is a turn that a client was told is accepted.
type accepted struct {
	turn events.TurnID
	seq  events.Seq
}

// orders is what one client asked for: by session, in the order of the answers.
type orders map[events.SessionID][]accepted

// asksAll submits turns from first on to each session in turn, and waits for no end.
func asksAll(ctx context.Context, by watch.Submitter, sessions, first, turns int) (orders, error) {
	list := make(orders)
	for k := range turns {
		for i := range sessions {
			id, turn := toilSession(i), toilTurn(first+k)
			noted, receipt := api.WithReceipt(ctx, id)
			a, err := by.SubmitTurn(noted, id, api.TurnRequest{ID: turn, Input: toilInput(turn)})
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

// TestOrderOfLog has eight clients, half of them over NATS, ask the same few
// sessions for turns without waiting for each other, while nodes are killed and
// replaced. Turns run in the order of the log, which is that of the answers.
func TestOrderOfLog(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const clients, sessions = 8, 3
		each := s.share(5, 2)
		w := s.worksite(0)
		w.gate.open()
		for i := range sessions {
			s.open(api.CreateRequest{ID: toilSession(i)})
		}
		var processes []*child
		spawn := func() {
			processes = append(processes, w.process(childConfig{Round: 1 + len(processes)}))
			processes[len(processes)-1].says(s.ctx, "serves")
		}
		for range 2 {
			w.start()
			spawn()
		}
		var all sync.WaitGroup
		lists, errs := make([]orders, clients), make([]error, clients)
		for n := range clients {
			by := watch.Submitter(s.newHost(s.connect()))
			if n%2 == 1 {
				by = dial(s.t, reader(s.t, bus.Config{URL: s.url}))
			}
			all.Go(func() { lists[n], errs[n] = asksAll(s.ctx, by, sessions, n*each, each) })
		}
		turns := clients * each
		for n := range 4 {
			s.until("further turns", func() bool { return s.turnsEnded(sessions) >= (n+1)*sessions*turns/6 })
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
			must(s.t, "client", errs[n], nil)
		}
		s.until("the ends of all turns", func() bool { return s.turnsEnded(sessions) == sessions*turns })
		for _, c := range processes {
			_ = c.cmd.Process.Kill() // or it was killed before
		}
		w.audit(sessions, turns)
		for i := range sessions {
			s.inOrder(toilSession(i), turns, lists)
		}
	})
}

// turnsEnded is how many turns have ended in all.
func (s *site) turnsEnded(sessions int) (n int) {
	s.t.Helper()
	for i := range sessions {
		state := s.state(toilSession(i))
		if n += int(state.Turns); state.Turn() != nil {
			n--
		}
	}
	return n
}

// inOrder wants the turns of a history to begin in the order of their requests, and clients to have been told that order.
func (s *site) inOrder(id events.SessionID, turns int, lists []orders) {
	s.t.Helper()
	var requested, started []events.TurnID
	at := make(map[events.TurnID]events.Seq)
	for e, err := range s.bus.Log().Read(s.ctx, id, 1) {
		must(s.t, "read", err, nil)
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
	equal(s.t, "requests", len(requested), turns)
	equalLists(s.t, "starts of "+string(id), started, requested)
	for n, list := range lists {
		for i, got := range list[id] {
			equal(s.t, fmt.Sprintf("sequence that client %d was told of %s", n, got.turn), got.seq, at[got.turn])
			if i > 0 && got.seq <= list[id][i-1].seq {
				s.t.Errorf("client %d: got %s in front of %s, which was answered first", n, got.turn, list[id][i-1].turn)
			}
		}
	}
}
