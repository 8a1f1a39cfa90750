package security

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
)

// written is a commit that a response names.
type written struct {
	id    events.SessionID
	seq   events.Seq
	actor string
}

// promise is something that a response without a sequence accepts: its history has an event of it.
type promise struct {
	session events.SessionID
	what    string // "turn NAME", "input NAME" or "task NAME"
}

func (s *siege) outcome(transport, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[[2]string{transport, code}]++
}

func (s *siege) accepted(transport string, id events.SessionID, seq events.Seq, actor string, made events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[[2]string{transport, "ok"}]++
	if seq != 0 && made == "" {
		s.wrote = append(s.wrote, written{id, seq, actor})
	}
	if made != "" {
		s.made[made] = true
	}
}

// undone records the key of a request that was refused before it had any effect. Keys that several requests have, and none, are left out.
func (s *siege) undone(status int, key string) {
	if !slices.Contains([]int{400, 401, 403, 404, 413, 429}, status) || !strings.HasPrefix(key, "u") && !strings.HasPrefix(key, "cb-") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = true
}

// promises records the turn or the input that an answer names.
func (s *siege) promises(op string, session events.SessionID, answer []byte) {
	var named struct{ ID, Turn, Input string }
	if json.Unmarshal(answer, &named) != nil {
		return
	}
	what := ""
	switch op {
	case "submitTurn", "run_turn":
		what = "turn " + cmp.Or(named.Turn, named.ID)
	case "injectInput":
		what = "input " + named.Input + named.ID
	case "registerTask":
		what = "task " + named.ID
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised = append(s.promised, promise{session, what})
}

// history is what the test needs of one.
type history struct {
	actors map[events.Seq]string
	turns  map[events.TurnID]bool // whether it has ended
	has    map[string]bool        // what can be promised
}

func (s *siege) read(id events.SessionID) *history {
	h := &history{make(map[events.Seq]string), make(map[events.TurnID]bool), make(map[string]bool)}
	for entry, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
		if err != nil {
			s.wrong("read %s: %v", id, err)
			break
		}
		h.actors[entry.Seq] = entry.Commit.Actor.ID
		if s.keys[entry.Commit.Key] {
			s.wrong("commit %d of %s: got one of a request that was refused", entry.Seq, id)
		}
		for i := range entry.Commit.Events {
			turn := entry.Commit.Events[i].Turn
			switch p := entry.Commit.Events[i].Payload.(type) {
			case *events.TurnRequested, *events.TurnScheduled:
				if _, has := h.turns[turn]; !has {
					h.turns[turn] = false
				}
				h.has["turn "+string(turn)] = true
			case *events.TurnCompleted, *events.TurnDiverted:
				h.turns[turn] = true
			case *events.InputInjected:
				h.has["input "+string(p.Input)] = true
			case *events.TaskRegistered:
				h.has["task "+string(p.Task)] = true
			}
		}
	}
	return h
}

// histories checks that every accepted write is in its history, with its caller, and verifies the histories of all
// sessions. No session is there that no request made.
func (s *siege) histories() {
	s.T.Helper()
	all := make(map[events.SessionID]*history)
	for _, id := range s.sessions() {
		all[id] = s.read(id)
		if len(all[id].actors) == 0 {
			s.wrong("%s: got no history of a session that was made", id)
		}
		harness.VerifyHistory(s.T, s.Bus, id)
	}
	for _, w := range s.wrote {
		if got := all[w.id]; got == nil || got.actors[w.seq] != w.actor {
			s.wrong("commit %d of %s: got %+v, want it by %q", w.seq, w.id, got, w.actor)
		}
	}
	for _, p := range s.promised {
		if all[p.session] == nil || !all[p.session].has[p.what] {
			s.wrong("%s of %s: got none, want it in the history", p.what, p.session)
		}
	}
	for id, err := range s.Bus.Sessions(s.Ctx) {
		if err != nil {
			s.wrong("sessions: %v", err)
			return
		}
		if !s.made[id] && !s.isPlayed(id) {
			s.wrong("%s: got a session that no accepted request made", id)
		}
	}
}

// isPlayed reports whether a session is that of a recorded conversation.
func (s *siege) isPlayed(id events.SessionID) bool {
	return strings.HasPrefix(string(id), "warm-") || strings.HasPrefix(string(id), "played-")
}

// closeAll ends the turns of all sessions of the siege, and closes these.
func (s *siege) closeAll() {
	s.T.Helper()
	queue := make(chan events.SessionID)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for id := range queue {
				s.closeOne(id)
			}
		})
	}
	for _, id := range s.sessions() {
		queue <- id
	}
	close(queue)
	all.Wait()
	for _, id := range s.sessions() {
		for turn, ended := range s.read(id).turns {
			if !ended {
				s.wrong("turn %s of %s: got no end, want one: the session is closed", turn, id)
			}
		}
	}
}

// closeOne closes a session, whose turns it cancels. The tenant has fewer streams than there are sessions.
func (s *siege) closeOne(id events.SessionID) {
	ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Minute)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		err := s.CloseSession(ctx, id, "the siege is over")
		if err == nil {
			return
		}
		_, class := api.Code(err)
		busy := class == api.ClassBusy && ctx.Err() == nil // a cold session becomes hot; the archiver makes room for its stream
		state, stateErr := s.State(ctx, id)
		if !busy && !errors.Is(err, api.ErrTurnRunning) || stateErr != nil {
			s.wrong("close %s: %v, %v", id, err, stateErr)
			return
		}
		if turn := state.Turn(); turn != nil {
			_, _, _ = s.Cancel(ctx, id, turn.ID, api.CancelRequest{}) // it may have ended
		}
		for _, q := range state.Queue {
			_, _, _ = s.Cancel(ctx, id, q.ID, api.CancelRequest{})
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// footprint is the size of the process.
type footprint struct {
	routines int
	heap     uint64 // bytes
}

func (s *siege) size() footprint {
	s.http.Client.CloseIdleConnections()
	runtime.GC()
	runtime.GC() // the first one leaves what pools keep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), m.HeapAlloc}
}

// keptBytes is what the process may keep after any number of requests: caches of the nodes, of the server and of the test.
const keptBytes = 64 << 20

// smallAgain waits until the process is as small as before: the sessions of the siege are closed, and go cold. The
// process includes the server, which keeps what it needs for an answer for up to two minutes.
func (s *siege) smallAgain(before footprint) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, 4*time.Minute)
	defer cancel()
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	most := footprint{before.routines + before.routines/5 + 50, before.heap + keptBytes}
	for {
		now := s.size()
		if now.routines <= most.routines && now.heap <= most.heap {
			s.T.Logf("goroutines: %d before, %d after, at most %d; heap: %d MiB before, %d MiB after, at most %d", before.routines, now.routines, most.routines, before.heap>>20, now.heap>>20, most.heap>>20)
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			s.T.Errorf("got %d goroutines and %d MiB, want at most %d and %d", now.routines, now.heap>>20, most.routines, most.heap>>20)
			return
		}
	}
}
