package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Fault is a kind of fault.
type Fault string

// The faults.
const (
	FaultKill      Fault = "kill"      // kill -9 of a node, which restarts at once or later
	FaultFreeze    Fault = "freeze"    // SIGSTOP of a node or a server, then SIGCONT
	FaultServer    Fault = "server"    // kill -9 of a server, which restarts
	FaultPartition Fault = "partition" // a node or a server has no connection
	FaultWakes     Fault = "wakes"     // kill -9 of a node, and a purge of every wake in the queue
)

// Faults are all kinds.
func Faults() []Fault {
	return []Fault{FaultKill, FaultFreeze, FaultServer, FaultPartition, FaultWakes}
}

// kills reports whether the fault kills a node.
func (f Fault) kills() bool { return f == FaultKill || f == FaultWakes }

// incident is a fault of a run.
type incident struct {
	Fault  Fault                     `json:"fault"`
	Target string                    `json:"target"`
	Worker events.WorkerID           `json:"worker,omitempty"` // of the process of a node
	At     time.Time                 `json:"at"`
	Until  time.Time                 `json:"until"`         // end of the fault
	Lost   time.Time                 `json:"lost,omitzero"` // when the purge of the wakes was complete; zero: no purge, or it failed
	wakes  map[events.SessionID]bool // sessions with a wake in the queue right before the kill; nil: unknown
}

// journal has the incidents so far.
type journal struct {
	mu   sync.Mutex
	list []incident
}

func (j *journal) add(i incident) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, i)
}

func (j *journal) all() []incident {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// injector applies random faults to a fleet. At any time, a minority of the servers and all nodes but one may be
// disturbed.
type injector struct {
	f       *fleet
	o       *Options
	random  *rand.Rand
	bus     *bus.Bus
	queue   sync.Mutex // locked from a read of the queue to the kill
	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // by name
	nodes   int             // disturbed
	servers int             // disturbed
	err     error           // a child that did not come back
}

// The pause between two faults.
const (
	pauseMin = 300 * time.Millisecond
	pauseMax = 1500 * time.Millisecond
)

// The last part of every cycle is calm: nodes are killed, with and without a purge of the wakes, and no other fault
// happens. Takeovers in this part are measured without the delay of other faults.
const (
	cycle     = 30 * time.Second // long enough that a turn continues in the calm part after its wake is lost
	calmAfter = 10 * time.Second
)

func calm(since time.Duration) bool { return since%cycle >= calmAfter }

// run applies faults until ctx ends. It returns when all faults are undone.
func (t *injector) run(ctx context.Context) error {
	began := time.Now()
	kills := slices.DeleteFunc(slices.Clone(t.o.Faults), func(f Fault) bool { return !f.kills() })
	for len(t.o.Faults) > 0 && t.sleep(ctx, pauseMin, pauseMax) {
		list := t.o.Faults
		if calm(time.Since(began)) && len(kills) > 0 {
			list = kills
		}
		fault := list[t.random.IntN(len(list))]
		onServer := fault == FaultServer || !fault.kills() && t.random.IntN(3) == 0
		// The draws are the same whether or not the target is free, so a seed gives one sequence.
		node, server := t.f.nodes[t.random.IntN(len(t.f.nodes))], t.f.servers[t.random.IntN(len(t.f.servers))]
		d := draw{length: t.between(time.Second, 5*time.Second), short: t.random.IntN(2) == 0}
		name := node.name
		if onServer {
			name = server.spec.Name
		}
		if !t.reserve(name, onServer) {
			continue
		}
		t.running.Go(func() {
			i := incident{Fault: fault, Target: name, At: time.Now()}
			var err error
			if onServer {
				err = t.onServer(ctx, fault, server, d)
			} else {
				i.Worker = node.id
				err = t.onNode(ctx, &i, node, d)
			}
			i.Until = time.Now()
			t.f.incident.add(i)
			t.release(name, onServer, err)
		})
	}
	t.running.Wait()
	return t.err
}

// draw has the random values of one fault.
type draw struct {
	length time.Duration
	short  bool // restart at once, or a partition that refuses connections
}

func (t *injector) between(low, high time.Duration) time.Duration {
	return low + time.Duration(t.random.Int64N(int64(high-low)))
}

// sleep pauses for a random time. It is false when ctx ended.
func (t *injector) sleep(ctx context.Context, low, high time.Duration) bool {
	return bus.Sleep(ctx, t.between(low, high))
}

func (t *injector) reserve(name string, onServer bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.busy[name] || t.err != nil, onServer && t.servers > 0, !onServer && t.nodes >= max(len(t.f.nodes)-1, 1):
		return false
	case onServer:
		t.servers++
	default:
		t.nodes++
	}
	t.busy[name] = true
	return true
}

func (t *injector) release(name string, onServer bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, name)
	if onServer {
		t.servers--
	} else {
		t.nodes--
	}
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s did not come back: %w", name, err)
	}
}

// onNode applies a fault to a node and undoes it. The end of ctx only shortens it.
func (t *injector) onNode(ctx context.Context, i *incident, n *node, d draw) error {
	switch i.Fault {
	case FaultFreeze:
		if err := n.child.freeze(); err != nil {
			return err
		}
		bus.Sleep(ctx, d.length)
		return n.child.thaw()
	case FaultPartition:
		cut(n.links, d.short)
		bus.Sleep(ctx, d.length)
		heal(n.links)
		return nil
	case FaultKill, FaultWakes, FaultServer:
	}
	if err := t.kill(ctx, i, n); err != nil {
		return err
	}
	if !d.short {
		bus.Sleep(ctx, d.length)
	}
	return t.f.startNode(context.WithoutCancel(ctx), n)
}

func (t *injector) onServer(ctx context.Context, fault Fault, s *server, d draw) (err error) {
	switch fault {
	case FaultFreeze:
		if err := s.child.freeze(); err != nil {
			return err
		}
		bus.Sleep(ctx, d.length)
		err = s.child.thaw()
	case FaultPartition:
		all := slices.Concat(s.to, s.from)
		cut(all, d.short)
		bus.Sleep(ctx, d.length)
		heal(all)
	case FaultServer, FaultKill, FaultWakes:
		s.child.kill()
		if !d.short {
			bus.Sleep(ctx, d.length)
		}
		s.child, err = t.f.launch.start(context.WithoutCancel(ctx), Spec{Server: &s.spec})
	}
	if err != nil {
		return err
	}
	healed, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
	defer cancel()
	for !t.bus.Agreed(healed) {
		if !bus.Sleep(healed, 100*time.Millisecond) {
			return fmt.Errorf("the servers do not agree after %s", readyWait)
		}
	}
	return nil
}

func cut(links []*link, refuse bool) {
	for _, l := range links {
		l.cut(refuse)
	}
}

func heal(links []*link) {
	for _, l := range links {
		l.heal()
	}
}
