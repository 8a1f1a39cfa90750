package remote

import (
	"container/list"
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
// error places the session on another instance. The call has 10 s. An instance knows 65 536 sessions: beyond them the
// one without a call for the longest time is dropped, and its next call follows another StartSession.
type SessionStarter interface {
	StartSession(ctx context.Context, in wire.SessionStart) error
}

// Idler is a plugin that decides what happens to a session that had no call for some time. No call and no hook of the
// session runs meanwhile.
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
	used *list.List // of *placed, the last used last
}

// placed is a session that is or was placed here.
//
//	none ──StartSession──► live ──a hint──► deciding ──kept──► live
//	                         │                 └──ended──► ended ──a start of a higher epoch──► live
//	                         └──65536 others were used since──► none
//
// While the plugin decides about an idle session, and after the end, its calls are refused: the node starts the session
// again, which waits for the decision.
type placed struct {
	session events.SessionID
	busy    sync.Mutex // of StartSession and IdleSession: one at a time
	epoch   int64      // 0 before the first start
	live    bool
	idle    time.Duration // after which nodes say that it is idle; 0: never
	kept    bool          // the plugin kept it when it was idle, and it was not used since
	running int           // calls, hooks, and requests to start or end the session
	last    time.Time     // of its start, and of the begin and end of its calls and hooks
	at      *list.Element
}

// find is the entry of a session; nil without one. The caller releases it.
func (s *sessions) find(id events.SessionID) *placed {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p != nil {
		p.running++
	}
	return p
}

// at is the entry of a session, which is made if there is none. The caller releases it. Beyond [wire.MaxSessions] the entry
// that was not used for the longest time is dropped.
func (s *sessions) at(id events.SessionID) *placed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID, s.used = make(map[events.SessionID]*placed), list.New()
	}
	p := s.byID[id]
	if p == nil {
		s.dropLocked()
		p = &placed{session: id}
		p.at = s.used.PushBack(p)
		s.byID[id] = p
	}
	p.running++
	return p
}

// dropLocked makes room for an entry. Entries in use go to the end of the list, so each is looked at once.
func (s *sessions) dropLocked() {
	for looks := s.used.Len(); len(s.byID) >= wire.MaxSessions && looks > 0; looks-- {
		oldest, _ := s.used.Front().Value.(*placed)
		if oldest.running > 0 {
			s.used.MoveToBack(oldest.at)
			continue
		}
		s.used.Remove(oldest.at)
		delete(s.byID, oldest.session)
	}
}

// release ends what find and at began.
func (s *sessions) release(p *placed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.running--
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

// use begins a call or a hook of a session. It returns nil where the session is not placed here with that epoch.
func (s *sessions) use(id events.SessionID, epoch int64) *placed {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p == nil || !p.live || p.epoch != epoch {
		return nil
	}
	p.running++
	s.touchLocked(p)
	return p
}

// done ends what use began. p may be nil.
func (s *sessions) done(p *placed) {
	if p == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.running--
	s.touchLocked(p)
}

func (s *sessions) touchLocked(p *placed) {
	p.last, p.kept = time.Now(), false
	s.used.MoveToBack(p.at)
}

// useHook is use for a hook, which waits while the plugin decides about the session: a node cannot place a session again
// for a hook.
func (s *sessions) useHook(id events.SessionID, epoch int64) *placed {
	if p := s.use(id, epoch); p != nil {
		return p
	}
	if p := s.find(id); p != nil {
		p.busy.Lock()
		p.busy.Unlock() //nolint:staticcheck // it waits
		s.release(p)
	}
	return s.use(id, epoch)
}

// owns begins a new call of a session. It refuses one that is not placed here with the call's epoch.
func (i *Instance) owns(in *wire.Call) (*placed, *wire.Error) {
	if i.cfg.Scope != wire.ScopeSession {
		return nil, nil //nolint:nilnil // any instance serves the call
	}
	if p := i.sessions.use(in.Session, in.Epoch); p != nil {
		return p, nil
	}
	return nil, &wire.Error{Code: wire.CodeNotOwner, Field: "epoch", Message: fmt.Sprintf("session %s is not placed on this instance with epoch %d", in.Session, in.Epoch)}
}

// startSession handles a placement. The same start may come again.
func (i *Instance) startSession(m *nats.Msg) {
	var in wire.SessionStart
	if err := json.Unmarshal(m.Data, &in); err != nil || in.Epoch < 1 || events.CheckToken("session", string(in.Session)) != nil {
		i.answer(m, &wire.Placed{Error: &wire.Error{Code: wire.CodeBadRequest, Message: "the start is no JSON of its form, its epoch is below 1, or its session is no token"}})
		return
	}
	if i.isForeign(in.Term) {
		return
	}
	if !i.begin(func() { i.answer(m, &wire.Placed{Error: i.place(&in)}) }) {
		i.answer(m, &wire.Placed{Error: draining()})
	}
}

func (i *Instance) place(in *wire.SessionStart) *wire.Error {
	if i.leaving.Load() {
		return &wire.Error{Code: wire.CodeDraining, Message: "the instance takes no new sessions"}
	}
	p := i.sessions.at(in.Session)
	defer i.sessions.release(p)
	p.busy.Lock()
	defer p.busy.Unlock()
	i.sessions.mu.Lock()
	epoch, live := p.epoch, p.live
	if epoch == in.Epoch && live {
		i.sessions.touchLocked(p)
	}
	i.sessions.mu.Unlock()
	switch {
	case epoch == in.Epoch && live:
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
	p.epoch, p.live, p.idle = in.Epoch, true, time.Duration(in.IdleMS)*time.Millisecond
	i.sessions.touchLocked(p)
	return nil
}

// idle handles the hint that a session is idle.
func (i *Instance) idle(m *nats.Msg) {
	var in wire.Idle
	if json.Unmarshal(m.Data, &in) == nil {
		i.begin(func() { i.answer(m, &wire.IdleAnswer{Ended: i.endIdle(&in)}) })
	}
}

// endIdle asks the plugin what to do with an idle session. A session that has calls, or had one meanwhile, is not idle.
func (i *Instance) endIdle(in *wire.Idle) (ended bool) {
	d, ok := i.cfg.Plugin.(Idler)
	p := i.sessions.find(in.Session)
	if p == nil {
		return false
	}
	defer i.sessions.release(p)
	p.busy.Lock()
	defer p.busy.Unlock()
	if !ok || !i.sessions.decide(p, in) {
		return false
	}
	action := d.IdleSession(i.ctx, in.Session)
	if action == IdleKeep {
		i.sessions.mu.Lock()
		p.live, p.kept = true, true
		i.sessions.mu.Unlock()
		return false
	}
	if action == IdleExit && i.sessions.live() == 0 {
		i.end()
	}
	return true
}

// endForgotten decides about sessions that are idle for twice the time after which nodes say so: the node that would is
// gone.
func (i *Instance) endForgotten(now time.Time) {
	if _, ok := i.cfg.Plugin.(Idler); !ok {
		return
	}
	for _, in := range i.sessions.forgotten(now) {
		i.begin(func() { i.endIdle(&in) })
	}
}

func (s *sessions) forgotten(now time.Time) (list []wire.Idle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.byID {
		if quiet := 2 * p.idle; p.live && !p.kept && p.running == 0 && quiet > 0 && now.Sub(p.last) >= quiet {
			list = append(list, wire.Idle{Session: id, Epoch: p.epoch, QuietMS: quiet.Milliseconds()})
		}
	}
	return list
}

// decide ends the placement of a session that is idle, until the plugin keeps it. The caller has one hold of p.
func (s *sessions) decide(p *placed, in *wire.Idle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	quiet := time.Since(p.last) >= time.Duration(in.QuietMS)*time.Millisecond
	if !p.live || p.kept || p.epoch != in.Epoch || p.running > 1 || !quiet {
		return false
	}
	p.live = false
	return true
}

func (i *Instance) answer(m *nats.Msg, body any) {
	data, err := json.Marshal(body)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		i.cfg.Logger.Warn("an answer could not be sent", zap.Error(err)) // the node sends the request again
	}
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
