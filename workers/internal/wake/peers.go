package wake

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// How workers watch each other. A client that lost its server reconnects within 150 ms: the bus waits 50 ms, with up
// to 100 ms of jitter.
const (
	WatchEvery    = 100 * time.Millisecond
	GoneTimes     = 4 // failed checks in a row after which a worker counts as gone
	announceEvery = 2 * time.Second
)

// requestWait limits the wait for the response of a worker.
const requestWait = 250 * time.Millisecond

// PeerRequest is a request of one worker to another about a turn or a task.
type PeerRequest struct {
	Session     events.SessionID `msgpack:"s"`
	Turn        events.TurnID    `msgpack:"t,omitempty"` // do you run this attempt of the turn?
	Attempt     int64            `msgpack:"a,omitempty"`
	Offer       bool             `msgpack:"o,omitempty"` // do you accept the wake? Sent to the worker that may have cached the state
	Runs        int64            `msgpack:"n,omitempty"` // of an offer: how many turns the sender runs
	Task        events.TaskID    `msgpack:"k,omitempty"` // do you run this task?
	Created     events.Millis    `msgpack:"c,omitempty"`
	Transferred bool             `msgpack:"m,omitempty"` // the task was transferred and its run may not know: the session of the task is not compared
	Handle      string           `msgpack:"h,omitempty"` // of the wake, which the receiver owns after the response yes
	Class       bus.Class        `msgpack:"l,omitempty"` // class of the wake
	Due         events.Millis    `msgpack:"d,omitempty"` // of the wake, see [bus.WakeHint]
	Repair      bool             `msgpack:"r,omitempty"` // of the wake, see [bus.WakeHint]
	Notifies    bool             `msgpack:"g,omitempty"` // do you notify plugins of the turn's end?
}

// Responder decides on a request of another worker. If it returns true, this worker owns the wake of the request.
type Responder func(q *PeerRequest) (yes bool)

// Peers are the other workers that a worker knows. Workers announce themselves periodically. Each watches the one
// before it in the order of their ids:
//
//	… ──► w3 ──► w2 ──► w1 ──► (the last)      ──► checks every WatchEvery
//
// The servers know at once that a worker's subject has no subscriber any more. The cause may be a connection that is
// being restored, so the check must fail [GoneTimes] times in a row. Then the worker that watches wakes every session
// that has a wake. A wake that was not needed is transferred to the worker that runs the turn.
type Peers struct {
	bus  *bus.Bus
	id   events.WorkerID
	name string // of the node; empty if it has none
	log  *zap.Logger

	mu         sync.Mutex
	peers      map[events.WorkerID]bool
	responders []Responder
}

// NewPeers creates the peers of a worker. name is that of its node.
func NewPeers(b *bus.Bus, id events.WorkerID, name string, log *zap.Logger) *Peers {
	return &Peers{bus: b, id: id, name: name, log: log.Named("peers"), peers: make(map[events.WorkerID]bool)}
}

// Add registers a responder. The first response yes counts.
func (p *Peers) Add(h Responder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.responders = append(p.responders, h)
}

// Listen responds to other workers until stop is called.
func (p *Peers) Listen() (stop func(), err error) {
	return p.bus.ServeWorker(p.id, func(question []byte) []byte {
		var q PeerRequest
		if events.DecodePayload(question, &q) == nil && p.respond(&q) {
			return []byte(yes)
		}
		return []byte("no")
	})
}

const yes = "yes"

func (p *Peers) respond(q *PeerRequest) bool {
	p.mu.Lock()
	responders := p.responders
	p.mu.Unlock()
	for _, h := range responders {
		if h(q) {
			return true
		}
	}
	return false
}

// Request sends a request to a worker. No response in time counts as no: the guarded append decides in the end.
func (p *Peers) Request(ctx context.Context, worker events.WorkerID, q PeerRequest) bool {
	response, known := p.RequestReply(ctx, worker, q)
	return known && response
}

// RequestReply is [Peers.Request] for a caller to which no response is not the same as no.
func (p *Peers) RequestReply(ctx context.Context, worker events.WorkerID, q PeerRequest) (response, known bool) {
	if worker == p.id {
		return p.respond(&q), true
	}
	body, err := events.EncodePayload(&q)
	if err != nil {
		return false, false
	}
	once, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	text, err := p.bus.RequestWorker(once, worker, body)
	return string(text) == yes, err == nil
}

// Lowest reports whether this worker has the smallest id of all known ones.
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

// Run announces this worker and watches the one before it until ctx ends.
func (p *Peers) Run(ctx context.Context) {
	stop, err := p.bus.OnAnnounce(func(worker events.WorkerID) { p.addPeer(ctx, worker) })
	if err != nil {
		p.log.Warn("announcements", zap.Error(err))
		return
	}
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { p.wakeAtStart(ctx) })
	watch, announce := time.NewTicker(WatchEvery), time.NewTicker(announceEvery)
	defer watch.Stop()
	defer announce.Stop()
	_ = p.bus.Announce(p.id) // a hint, like every later one
	for {
		select {
		case <-ctx.Done():
			return
		case <-announce.C:
			_ = p.bus.Announce(p.id)
		case <-watch.C:
			if before := p.watched(); before != "" && p.gone(ctx, before) {
				p.forget(before)
				wait.Go(func() { p.wakeAll(ctx, before) })
			}
		}
	}
}

// addPeer adds a worker if its subject has a subscriber: the announcement alone proves nothing.
// The new worker receives an announcement of this one at once.
func (p *Peers) addPeer(ctx context.Context, worker events.WorkerID) {
	if p.isKnown(worker) || p.bus.WorkerGone(ctx, worker) {
		return
	}
	p.mu.Lock()
	p.peers[worker] = true
	p.mu.Unlock()
	_ = p.bus.Announce(p.id)
}

func (p *Peers) isKnown(worker events.WorkerID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return worker == p.id || p.peers[worker]
}

func (p *Peers) forget(worker events.WorkerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, worker)
}

// watched is the worker to watch: the next smaller id, or the largest id for the smallest worker.
func (p *Peers) watched() events.WorkerID {
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

// gone reports whether a worker has no subscriber in several checks in a row.
func (p *Peers) gone(ctx context.Context, worker events.WorkerID) bool {
	for n := range GoneTimes {
		if n > 0 && !delay.Sleep(ctx, WatchEvery) || !p.bus.WorkerGone(ctx, worker) {
			return false
		}
	}
	return true
}

// wakeAtStart wakes the sessions that an earlier run may have left. A node with a name may have been killed and
// restarted. No other worker watches the only worker, so none would have noticed its end.
func (p *Peers) wakeAtStart(ctx context.Context) {
	if p.name != "" || delay.Sleep(ctx, WatchEvery) && p.watched() == "" {
		p.wakeAll(ctx, "")
	}
}

// wakeAll wakes every session that has a wake: a worker that is gone may have had it.
func (p *Peers) wakeAll(ctx context.Context, gone events.WorkerID) {
	wakes, err := p.bus.Wakes(ctx)
	n := 0
	for key := range wakes {
		if key.Class.OfTurns() && err == nil {
			err = p.bus.PublishWake(key, bus.WakeHint{Repair: true})
			n++
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		p.log.Warn("wakes of a worker that is gone are left to the queue", zap.String("gone", string(gone)), zap.Error(err))
	case gone != "":
		p.log.Info("worker is gone", zap.String("gone", string(gone)), zap.Int("wakes", n))
	}
}
