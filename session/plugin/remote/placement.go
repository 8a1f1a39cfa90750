package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// SessionStarter is a plugin that gets a call before the first call of a session that is placed on this instance. An
// error places the session on another instance. The call has 10 s.
type SessionStarter interface {
	StartSession(ctx context.Context, in wire.SessionStart) error
}

// Idler is a plugin that decides what happens to a session that had no call for some time.
type Idler interface {
	IdleSession(ctx context.Context, session events.SessionID) IdleAction
}

// IdleAction says what happens to an idle session.
type IdleAction int

// Actions. The next call of a session whose placement ended follows another StartSession.
const (
	IdleKeep IdleAction = iota // the session stays
	IdleEnd                    // the placement ends
	IdleExit                   // the placement ends, and [Instance.Run] returns if no other session is placed here
)

// startWait limits a StartSession.
const startWait = 10 * time.Second

// sessions are the placements on an instance.
type sessions struct {
	mu   sync.Mutex
	byID map[events.SessionID]*placed
}

// maxEnded is how many ended placements an instance knows, to refuse late calls of them.
const maxEnded = 1 << 14

// placed is a session that is or was placed here.
type placed struct {
	busy  sync.Mutex // of StartSession and IdleSession: one at a time
	epoch int64      // 0 before the first start
	live  bool
	last  time.Time // of its start, and of its calls
}

// at is the entry of a session, which is made if there is none.
func (s *sessions) at(id events.SessionID) *placed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[events.SessionID]*placed)
	}
	p := s.byID[id]
	if p == nil {
		for old, other := range s.byID {
			if len(s.byID) < maxEnded {
				break
			}
			if !other.live {
				delete(s.byID, old)
			}
		}
		p = new(placed)
		s.byID[id] = p
	}
	return p
}

func (s *sessions) live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byID {
		if p.live {
			n++
		}
	}
	return n
}

// use notes a call of a session. It reports whether the session is placed here with that epoch.
func (s *sessions) use(id events.SessionID, epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p == nil || !p.live || p.epoch != epoch {
		return false
	}
	p.last = time.Now()
	return true
}

// owns refuses a new call of a session that is not placed here with the call's epoch.
func (i *Instance) owns(in *wire.Call) *wire.Error {
	if i.cfg.Scope != wire.ScopeSession || i.calls.knows(in.CallID) || i.sessions.use(in.Session, in.Epoch) {
		return nil
	}
	return &wire.Error{Code: wire.CodeNotOwner, Field: "epoch", Message: fmt.Sprintf("session %s is not placed on this instance with epoch %d", in.Session, in.Epoch)}
}

// startSession handles a placement. The same start may come again.
func (i *Instance) startSession(m *nats.Msg) {
	var in wire.SessionStart
	if err := json.Unmarshal(m.Data, &in); err != nil || in.Epoch < 1 {
		i.answer(m, &wire.Placed{Error: &wire.Error{Code: wire.CodeBadRequest, Message: "the start is no JSON of its form, or its epoch is below 1"}})
		return
	}
	i.work.Go(func() { i.answer(m, &wire.Placed{Error: i.place(&in)}) })
}

func (i *Instance) place(in *wire.SessionStart) *wire.Error {
	if i.leaving.Load() {
		return &wire.Error{Code: wire.CodeDraining, Message: "the instance takes no new sessions"}
	}
	p := i.sessions.at(in.Session)
	p.busy.Lock()
	defer p.busy.Unlock()
	i.sessions.mu.Lock()
	epoch, live := p.epoch, p.live
	i.sessions.mu.Unlock()
	switch {
	case epoch == in.Epoch && live:
		i.sessions.use(in.Session, in.Epoch)
		return nil
	case epoch >= in.Epoch:
		return &wire.Error{Code: wire.CodeNotOwner, Field: "epoch", Message: fmt.Sprintf("is %d, this instance knows %d", in.Epoch, epoch)}
	}
	if s, ok := i.cfg.Plugin.(SessionStarter); ok {
		ctx, cancel := context.WithTimeout(i.ctx, startWait)
		defer cancel()
		if err := s.StartSession(ctx, *in); err != nil {
			return &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
		}
	}
	i.sessions.mu.Lock()
	defer i.sessions.mu.Unlock()
	p.epoch, p.live, p.last = in.Epoch, true, time.Now()
	return nil
}

// idle handles the hint that a session is idle.
func (i *Instance) idle(m *nats.Msg) {
	var in wire.Idle
	if json.Unmarshal(m.Data, &in) == nil {
		i.work.Go(func() { i.answer(m, &wire.IdleAnswer{Ended: i.endIdle(&in)}) })
	}
}

// endIdle asks the plugin what to do with an idle session. A session that had a call meanwhile is not idle.
func (i *Instance) endIdle(in *wire.Idle) (ended bool) {
	d, ok := i.cfg.Plugin.(Idler)
	p := i.sessions.at(in.Session)
	p.busy.Lock()
	defer p.busy.Unlock()
	quiet := func() bool {
		return p.live && p.epoch == in.Epoch && time.Since(p.last) >= time.Duration(in.QuietMS)*time.Millisecond
	}
	i.sessions.mu.Lock()
	idle := quiet()
	i.sessions.mu.Unlock()
	if !ok || !idle || i.calls.runningOf(in.Session) > 0 {
		return false
	}
	action := d.IdleSession(i.ctx, in.Session)
	if action == IdleKeep {
		return false
	}
	i.sessions.mu.Lock()
	if ended = quiet(); ended {
		p.live = false
	}
	i.sessions.mu.Unlock()
	if ended && action == IdleExit && i.sessions.live() == 0 {
		i.end()
	}
	return ended
}

func (i *Instance) answer(m *nats.Msg, body any) {
	data, err := json.Marshal(body)
	if err != nil || m.Respond(data) != nil {
		i.cfg.Logger.Warn("an answer could not be sent", zap.Error(err)) // the node sends the request again
	}
}

// knows reports whether the call reached this instance before.
func (c *calls) knows(id wire.CallID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id] != nil
}

// runningOf counts the calls of a session that run.
func (c *calls) runningOf(session events.SessionID) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.byID {
		if id.Session == session && known.over.IsZero() {
			n++
		}
	}
	return n
}

// kept counts the outcomes that no node has recorded.
func (c *calls) kept() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.ended {
		if c.byID[id].outcome != nil {
			n++
		}
	}
	return n
}
