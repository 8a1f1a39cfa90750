package wake

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// How workers watch each other. A client that lost its server is back within
// 150 ms: the bus waits 50 ms, its jitter is 100 ms at most.
const (
	WatchEvery    = 100 * time.Millisecond
	GoneTimes     = 4 // misses in a row after which a worker is believed gone
	announceEvery = 2 * time.Second
)

// askWait is how long a worker may take to say whether it runs a turn.
const askWait = 250 * time.Millisecond

// Question is what a worker asks another one about a turn or a task.
type Question struct {
	Session events.SessionID `msgpack:"s"`
	Turn    events.TurnID    `msgpack:"t,omitempty"` // do you run this attempt of it?
	Attempt int64            `msgpack:"a,omitempty"`
	Offer   bool             `msgpack:"o,omitempty"` // will you take the wake? You may have the session's state
	Runs    int64            `msgpack:"n,omitempty"` // of an offer: how many turns the asking worker runs
	Task    events.TaskID    `msgpack:"k,omitempty"` // do you run this task?
	Created events.Millis    `msgpack:"c,omitempty"`
	Moved   bool             `msgpack:"m,omitempty"` // it was transferred: its run may not know yet, so any session will do
	Handle  string           `msgpack:"h,omitempty"` // of the wake, which the other holds from now on where the answer is yes
	Class   bus.Class        `msgpack:"l,omitempty"` // of the wake
	Due     events.Millis    `msgpack:"d,omitempty"` // likewise, see [bus.WakeHint]
	Repair  bool             `msgpack:"r,omitempty"` // likewise
	Telling bool             `msgpack:"g,omitempty"` // do you tell plugins of the turn's end?
}

// Holder answers a question. It takes the wake where the answer is yes.
type Holder func(q *Question) (yes bool)

// Peers is what a worker knows of the others. Workers announce themselves now
// and then, and each watches the one before it in the order of their ids:
//
//	… ──► w3 ──► w2 ──► w1 ──► (the last)      ──► asks every WatchEvery
//
// The servers know at once that no one listens to a worker's subject any more.
// That may be a connection that is being made again, so it must be so
// [GoneTimes] times in a row. The neighbour of a worker that is gone wakes
// every session that has a wake: a wake that is needless is handed over.
type Peers struct {
	bus  *bus.Bus
	id   events.WorkerID
	name string // of the node, for its own earlier runs; may be empty
	log  *zap.Logger

	mu      sync.Mutex
	peers   map[events.WorkerID]bool
	holders []Holder
}

// NewPeers makes the peers of a worker. name is its node's, the same in every run of it.
func NewPeers(b *bus.Bus, id events.WorkerID, name string, log *zap.Logger) *Peers {
	return &Peers{bus: b, id: id, name: name, log: log.Named("peers"), peers: make(map[events.WorkerID]bool)}
}

// Add lets a holder answer questions: the first yes counts.
func (p *Peers) Add(h Holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = append(p.holders, h)
}

// Answer answers other workers until stop.
func (p *Peers) Answer() (stop func(), err error) {
	return p.bus.ServeWorker(p.id, func(question []byte) []byte {
		var q Question
		if events.DecodePayload(question, &q) == nil && p.holds(&q) {
			return []byte(yes)
		}
		return []byte("no")
	})
}

const yes = "yes"

func (p *Peers) holds(q *Question) bool {
	p.mu.Lock()
	holders := p.holders
	p.mu.Unlock()
	for _, h := range holders {
		if h(q) {
			return true
		}
	}
	return false
}

// Ask puts a question to a worker. A worker that is gone, or does not answer in
// time, is a no: the guarded append decides in the end.
func (p *Peers) Ask(ctx context.Context, worker events.WorkerID, q Question) bool {
	answer, known := p.Reply(ctx, worker, q)
	return known && answer
}

// Reply is [Peers.Ask] that tells a no from no answer.
func (p *Peers) Reply(ctx context.Context, worker events.WorkerID, q Question) (answer, known bool) {
	if worker == p.id {
		return p.holds(&q), true
	}
	body, err := events.EncodePayload(&q)
	if err != nil {
		return false, false
	}
	once, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	text, err := p.bus.RequestWorker(once, worker, body)
	return string(text) == yes, err == nil
}

// Lowest reports whether no other worker that is known has a smaller id.
func (p *Peers) Lowest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.peers {
		if id < p.id {
			return false
		}
	}
	return true
}

// Run watches until ctx ends.
func (p *Peers) Run(ctx context.Context) {
	stop, err := p.bus.Announced(func(worker events.WorkerID) { p.heard(ctx, worker) })
	if err != nil {
		p.log.Warn("announcements", zap.Error(err))
		return
	}
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { p.atStart(ctx) })
	watch, announce := time.NewTicker(WatchEvery), time.NewTicker(announceEvery)
	defer watch.Stop()
	defer announce.Stop()
	_ = p.bus.Announce(p.id) // a hint, as every later one
	for {
		select {
		case <-ctx.Done():
			return
		case <-announce.C:
			_ = p.bus.Announce(p.id)
		case <-watch.C:
			if before := p.before(); before != "" && p.gone(ctx, before) {
				p.forget(before)
				wait.Go(func() { p.wakeAll(ctx, before) })
			}
		}
	}
}

// heard keeps who is there: a name alone is not, whoever said it. A new worker
// gets an announcement at once.
func (p *Peers) heard(ctx context.Context, worker events.WorkerID) {
	if p.knows(worker) || p.bus.WorkerGone(ctx, worker) {
		return
	}
	p.mu.Lock()
	p.peers[worker] = true
	p.mu.Unlock()
	_ = p.bus.Announce(p.id)
}

func (p *Peers) knows(worker events.WorkerID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return worker == p.id || p.peers[worker]
}

func (p *Peers) forget(worker events.WorkerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, worker)
}

// before is the worker to watch: the next smaller id, and the largest for the smallest.
func (p *Peers) before() events.WorkerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var before, last events.WorkerID
	for id := range p.peers {
		if last = max(last, id); id < p.id {
			before = max(before, id)
		}
	}
	if before == "" {
		return last
	}
	return before
}

// gone reports whether a worker does not listen, several times in a row.
func (p *Peers) gone(ctx context.Context, worker events.WorkerID) bool {
	for n := range GoneTimes {
		if n > 0 && !bus.Sleep(ctx, WatchEvery) || !p.bus.WorkerGone(ctx, worker) {
			return false
		}
	}
	return true
}

// atStart wakes what an earlier run may have left: a node that has a name may
// come back after a kill, and one that is alone has no neighbour that watched.
func (p *Peers) atStart(ctx context.Context) {
	if p.name != "" || bus.Sleep(ctx, WatchEvery) && p.before() == "" {
		p.wakeAll(ctx, "")
	}
}

// wakeAll wakes every session that has a wake, as some may have been held by a worker that is gone.
func (p *Peers) wakeAll(ctx context.Context, gone events.WorkerID) {
	wakes, err := p.bus.Wakes(ctx)
	n := 0
	for key := range wakes {
		if key.Class == bus.ClassTurn && err == nil {
			err = p.bus.PublishWake(key, bus.WakeHint{Repair: true})
			n++
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		p.log.Warn("what a worker held is left to the queue", zap.String("gone", string(gone)), zap.Error(err))
	case gone != "":
		p.log.Info("worker is gone", zap.String("gone", string(gone)), zap.Int("wakes", n))
	}
}
