package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
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
	at      time.Time         // of its receipt
}

// fresh reports whether the node that sent it is still there.
func (a *announcement) fresh() bool { return time.Since(a.at) <= goneAfter }

// join announces the servers of this node, and receives those of others, until [Servers.Stop]. It waits for the first answers of others. Where
// there is no bus the node is alone.
func (s *Servers) join(ctx context.Context) error {
	b := s.cfg.Bus
	if b == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	answer, err := b.ServeWorker(s.node, s.answer)
	if err != nil {
		cancel()
		return err
	}
	receive, err := b.OnAnnounceServers(func(data []byte) { s.receive(ctx, data) })
	if err != nil {
		answer()
		cancel()
		return err
	}
	s.leave = func() {
		answer()
		receive()
		cancel()
		s.work.Wait()
		_ = b.AnnounceServers(mustJSON(announcement{Node: string(s.node)})) // a hint: others notice the silence
	}
	s.publish(true)
	s.work.Go(func() { // ends with Stop
		every := time.NewTicker(announceEvery)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			case <-s.changed:
			}
			s.publish(false)
		}
	})
	delay.Sleep(ctx, firstWait)
	return nil
}

// announce announces the servers of this node soon.
func (s *Servers) announce() {
	select {
	case s.changed <- struct{}{}:
	default: // the next announcement has this change, too
	}
}

// publish announces the servers of this node that run. A node without some is silent.
func (s *Servers) publish(asks bool) {
	a := announcement{Node: string(s.node), Servers: make(map[string]string), Asks: asks}
	s.mu.Lock()
	for name, source := range s.own {
		if o := s.offers[name]; o != nil && source.running() && !s.cfg.Quiet {
			a.Servers[name] = o.hash
		}
	}
	s.mu.Unlock()
	if len(s.own) > 0 || asks {
		_ = s.cfg.Bus.AnnounceServers(mustJSON(a)) // the next one follows
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
func (s *Servers) receive(ctx context.Context, data []byte) {
	a := announcement{at: time.Now()}
	if json.Unmarshal(data, &a) != nil || a.Node == string(s.node) || ctx.Err() != nil {
		return
	}
	if a.Asks {
		s.announce()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.others, func(_ string, old announcement) bool { return !old.fresh() })
	s.others[a.Node] = a
	for name, hash := range a.Servers {
		if s.lacksLocked(name, hash) {
			s.asking[hash] = true
			s.work.Go(func() { s.ask(ctx, events.WorkerID(a.Node), name, hash) })
		}
	}
}

// lacksLocked reports whether this node is to ask for an offer. What its own server offers goes before, and what it has from another node stays
// as long as one announces it: nodes may have different servers of one name.
func (s *Servers) lacksLocked(name, hash string) bool {
	o, own := s.offers[name], s.own[name]
	if o != nil && (o.hash == hash || own != nil && own.hasOffered()) || s.asking[hash] {
		return false
	}
	for _, a := range s.others {
		if o != nil && a.Servers[name] == o.hash && a.fresh() {
			return false
		}
	}
	return true
}

// ask asks a node for the offer of one of its servers.
func (s *Servers) ask(ctx context.Context, node events.WorkerID, name, hash string) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	o, err := offered(name, func(request string) ([]byte, error) { return s.cfg.Bus.RequestWorker(ctx, node, []byte(request)) })
	s.mu.Lock()
	delete(s.asking, hash)
	s.mu.Unlock()
	if err != nil || o.seal().hash != hash || o.Server != name { // it is gone, or has another one now: its next announcement follows
		s.log.Debug("the tools of another node's server", zap.String("server", name), zap.Error(err))
		return
	}
	s.take(o)
}

// offered is the offer of a server that answers have, each some of its tools.
func offered(name string, answer func(request string) ([]byte, error)) (*offer, error) {
	for o, request := new(offer), name; ; request = fmt.Sprint(name, " ", len(o.Tools)) {
		page := new(offer)
		data, err := answer(request)
		if err == nil {
			err = json.Unmarshal(data, page)
		}
		more := page.More && len(page.Tools) > 0
		page.Tools, page.More = append(o.Tools, page.Tools...), false
		if o = page; err != nil || !more {
			return o, err
		}
	}
}

// pageBytes limits the tools in an answer: as JSON they may have six times as much, of the message's mebibyte.
const pageBytes = 128 << 10

// answer is the offer of a server of this node, as JSON, with the tools from a number on that one answer holds.
func (s *Servers) answer(request []byte) []byte {
	name, number, _ := strings.Cut(string(request), " ")
	from, _ := strconv.Atoi(number) // the first request has none
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.offers[name]
	if o == nil || from < 0 || from > len(o.Tools) {
		return mustJSON(nil)
	}
	page, bytes := *o, 0
	page.Tools = o.Tools[from:]
	for i := range page.Tools {
		if bytes += page.Tools[i].size(); bytes > pageBytes && i > 0 {
			page.Tools, page.More = page.Tools[:i], true
			break
		}
	}
	return mustJSON(&page)
}

// elsewhere reports whether a server runs on another node.
func (s *Servers) elsewhere(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.others {
		if _, ok := a.Servers[name]; ok && a.fresh() {
			return true
		}
	}
	return false
}
