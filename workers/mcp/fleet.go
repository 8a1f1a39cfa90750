package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// Times of announcements.
const (
	announceEvery = 2 * time.Second
	goneAfter     = 3 * announceEvery // since the last one of a node
	askWait       = 5 * time.Second   // for an offer
	firstWait     = 300 * time.Millisecond
)

// announcement is what a node tells others: which of its servers run, and the hashes of what they offer. Others ask it for an offer that they
// do not know.
type announcement struct {
	Node    string            `json:"node"`
	Servers map[string]string `json:"servers,omitempty"`
	Asks    bool              `json:"asks,omitempty"` // it has just started: others announce theirs at once
}

// fleet is what a node knows of the servers of other nodes. Where there is no bus it is alone.
type fleet struct {
	s    *Servers
	node events.WorkerID
	work sync.WaitGroup
	ends []func()
	now  chan struct{} // has an element when the node's own servers have changed

	ctx context.Context //nolint:containedctx // of requests, ends with stop
	end context.CancelFunc

	mu     sync.Mutex
	others map[string]heard // by node
	asking map[string]bool  // hashes of offers that are being asked for
}

// heard is the last announcement of a node.
type heard struct {
	announcement
	at time.Time
}

func newFleet(s *Servers) *fleet {
	return &fleet{s: s, node: events.WorkerID("mcp-" + rand.Text()), now: make(chan struct{}, 1), others: make(map[string]heard), asking: make(map[string]bool)}
}

// start announces the servers of this node, and receives those of others, until stop. It waits for the first answers of others.
func (f *fleet) start(ctx context.Context) error {
	b := f.s.cfg.Bus
	if b == nil {
		return nil
	}
	f.ctx, f.end = context.WithCancel(context.WithoutCancel(ctx)) // ends with stop
	answer, err := b.ServeWorker(f.node, f.answer)
	if err != nil {
		return err
	}
	receive, err := b.OnAnnounceServers(f.receive)
	if err != nil {
		answer()
		return err
	}
	f.ends = []func(){answer, receive}
	f.publish(true)
	f.work.Go(f.run)
	delay.Sleep(ctx, firstWait)
	return nil
}

func (f *fleet) stop() {
	if f.end == nil {
		return
	}
	for _, end := range f.ends {
		end()
	}
	f.end()
	f.work.Wait()
	_ = f.s.cfg.Bus.AnnounceServers(mustJSON(announcement{Node: string(f.node)})) // a hint: others notice the silence
}

// announce announces the servers of this node soon.
func (f *fleet) announce() {
	select {
	case f.now <- struct{}{}:
	default: // the next announcement has this change, too
	}
}

func (f *fleet) run() {
	every := time.NewTicker(announceEvery)
	defer every.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-every.C:
		case <-f.now:
		}
		f.publish(false)
	}
}

// publish announces the servers of this node that run. A node without some is silent.
func (f *fleet) publish(asks bool) {
	a := announcement{Node: string(f.node), Servers: make(map[string]string), Asks: asks}
	f.s.mu.Lock()
	offers := maps.Clone(f.s.offers)
	f.s.mu.Unlock()
	for name, source := range f.s.own {
		if o := offers[name]; o != nil && source.running() {
			a.Servers[name] = o.hash
		}
	}
	if f.s.cfg.Quiet {
		a.Servers = nil
	}
	if len(f.s.own) > 0 || asks {
		_ = f.s.cfg.Bus.AnnounceServers(mustJSON(a)) // the next one follows
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has texts only
	}
	return data
}

// receive notes what a node announces, and asks it for offers that this node lacks.
func (f *fleet) receive(data []byte) {
	var a announcement
	if json.Unmarshal(data, &a) != nil || a.Node == string(f.node) || f.ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	maps.DeleteFunc(f.others, func(_ string, h heard) bool { return time.Since(h.at) > goneAfter })
	f.others[a.Node] = heard{a, time.Now()}
	f.mu.Unlock()
	if a.Asks {
		f.announce()
	}
	for _, name := range slices.Sorted(maps.Keys(a.Servers)) {
		if hash := a.Servers[name]; f.lacks(name, hash) {
			f.work.Go(func() { f.ask(events.WorkerID(a.Node), name, hash) })
		}
	}
}

// lacks reports whether this node is to ask for an offer. What its own server offers goes before, and what it has from another node stays as
// long as one announces it: nodes may have different servers of one name.
func (f *fleet) lacks(name, hash string) bool {
	f.s.mu.Lock()
	o := f.s.offers[name]
	f.s.mu.Unlock()
	own := f.s.own[name]
	if o != nil && (o.hash == hash || own != nil && own.hasOffered()) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking[hash] || o != nil && f.announcedLocked(name, o.hash) {
		return false
	}
	f.asking[hash] = true
	return true
}

// announcedLocked reports whether a node announces an offer of a server.
func (f *fleet) announcedLocked(server, hash string) bool {
	for _, h := range f.others {
		if h.Servers[server] == hash && time.Since(h.at) <= goneAfter {
			return true
		}
	}
	return false
}

// ask asks a node for the offer of one of its servers.
func (f *fleet) ask(node events.WorkerID, name, hash string) {
	ctx, cancel := context.WithTimeout(f.ctx, askWait)
	defer cancel()
	data, err := f.s.cfg.Bus.RequestWorker(ctx, node, []byte(name))
	f.mu.Lock()
	delete(f.asking, hash)
	f.mu.Unlock()
	o := new(offer)
	if err == nil {
		err = json.Unmarshal(data, o)
	}
	if err != nil || o.seal().hash != hash || o.Server != name { // it is gone, or has another one now: its next announcement follows
		f.s.log.Debug("the tools of another node's server", zap.String("server", name), zap.Error(err))
		return
	}
	f.s.take(o)
}

// answer is the offer of a server of this node, as JSON.
func (f *fleet) answer(name []byte) []byte {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return mustJSON(f.s.offers[string(name)])
}

// has reports whether a server runs on another node.
func (f *fleet) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.others {
		if _, ok := h.Servers[name]; ok && time.Since(h.at) <= goneAfter {
			return true
		}
	}
	return false
}
