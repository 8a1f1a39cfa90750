package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
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
	FaultMCP       Fault = "mcp"       // kill -9 of a node's server of the Model Context Protocol, which the node starts again
	FaultPlugin    Fault = "plugin"    // kill -9 of a process of the plugin, which restarts, or SIGSTOP, then SIGCONT
)

func allFaults() []Fault {
	return []Fault{FaultKill, FaultFreeze, FaultServer, FaultPartition, FaultWakes, FaultPlugin, FaultMCP}
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

// group is what a fault may hit.
type group string

const (
	groupServers group = "servers"
	groupNodes   group = "nodes"
	groupPlugins group = "plugins" // processes of the plugin
	groupMCP     group = "mcp"     // servers of the Model Context Protocol
)

// injector applies random faults to a fleet. At any time, a minority of the servers, all nodes but one and all processes
// of the plugin but one may be disturbed.
type injector struct {
	f       *fleet
	o       *options
	random  *rand.Rand
	bus     *bus.Bus
	queue   sync.Mutex // locked from a read of the queue to the kill
	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // by name
	err     error           // a child that did not come back

	disturbed map[group]int
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
	faults := slices.Clone(t.o.Faults)
	if len(t.f.plugins) == 0 {
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f == FaultPlugin })
	}
	if t.o.MCP == 0 {
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f == FaultMCP })
	}
	kills := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return !f.kills() })
	for len(faults) > 0 && t.sleep(ctx, pauseMin, pauseMax) {
		list := faults
		if calm(time.Since(began)) && len(kills) > 0 {
			list = kills
		}
		d := t.draw(list[t.random.IntN(len(list))])
		if !t.reserve(d) {
			continue
		}
		t.running.Go(func() {
			i := incident{Fault: d.fault, Target: d.name, At: time.Now()}
			var err error
			if d.group == groupServers {
				err = t.onServer(ctx, d)
			} else {
				i.Worker = d.member.id
				err = t.onMember(ctx, &i, d)
			}
			i.Until = time.Now()
			t.f.incident.add(i)
			t.release(d, err)
		})
	}
	t.running.Wait()
	return t.err
}

// draw has the random values of one fault.
type draw struct {
	fault  Fault
	group  group
	name   string  // of the target
	server *server // the target of group servers
	member *member // the target of the other groups
	length time.Duration
	short  bool // restart at once, or a partition that refuses connections
	freeze bool // for [FaultPlugin]: not a kill
}

// draw draws a fault. The draws are the same whether or not the target is free, so a seed gives one sequence.
func (t *injector) draw(fault Fault) draw {
	d := draw{fault: fault, group: groupNodes}
	if fault == FaultServer || !fault.kills() && fault != FaultPlugin && fault != FaultMCP && t.random.IntN(3) == 0 {
		d.group = groupServers
	}
	d.member, d.server = t.f.nodes[t.random.IntN(len(t.f.nodes))], t.f.servers[t.random.IntN(len(t.f.servers))]
	d.length, d.short = t.between(time.Second, 5*time.Second), t.random.IntN(2) == 0
	if fault == FaultPlugin {
		d.group, d.member, d.freeze = groupPlugins, t.f.plugins[t.random.IntN(len(t.f.plugins))], t.random.IntN(2) == 0
	}
	d.name = d.member.name
	if fault == FaultMCP {
		d.name, d.group = "mcp-"+d.name, groupMCP
	}
	if d.group == groupServers {
		d.name = d.server.spec.Name
	}
	return d
}

func (t *injector) between(low, high time.Duration) time.Duration {
	return low + time.Duration(t.random.Int64N(int64(high-low)))
}

// sleep pauses for a random time. It is false when ctx ended.
func (t *injector) sleep(ctx context.Context, low, high time.Duration) bool {
	return delay.Sleep(ctx, t.between(low, high))
}

// most is how many of a group may be disturbed at once.
func (t *injector) most(g group) int {
	switch g {
	case groupServers:
		return 1
	case groupPlugins:
		return len(t.f.plugins) - 1
	case groupMCP:
		return len(t.f.nodes)
	case groupNodes:
	}
	return max(len(t.f.nodes)-1, 1)
}

func (t *injector) reserve(d draw) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[d.name] || t.err != nil || t.disturbed[d.group] >= t.most(d.group) {
		return false
	}
	t.disturbed[d.group]++
	t.busy[d.name] = true
	return true
}

func (t *injector) release(d draw, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, d.name)
	t.disturbed[d.group]--
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s did not come back: %w", d.name, err)
	}
}

// onMember applies a fault to a node or a process of the plugin and undoes it. The end of ctx only shortens it.
func (t *injector) onMember(ctx context.Context, i *incident, d draw) error {
	m := d.member
	switch {
	case d.fault == FaultMCP:
		return os.WriteFile(t.f.order(m), nil, 0o600) // the server removes it, or the next one does
	case d.fault == FaultFreeze || d.freeze:
		err := m.child.freeze()
		if err == nil {
			delay.Sleep(ctx, d.length)
			err = m.child.thaw()
		}
		if errors.Is(err, os.ErrProcessDone) { // a turn killed it
			return nil
		}
		return err
	case d.fault == FaultPartition:
		cut(m.links, d.short)
		delay.Sleep(ctx, d.length)
		heal(m.links)
		return nil
	case d.group == groupPlugins:
		m.child.kill()
	default:
		if err := t.kill(ctx, i, m); err != nil {
			return err
		}
	}
	if !d.short {
		delay.Sleep(ctx, d.length)
	}
	return t.f.startMember(context.WithoutCancel(ctx), m)
}

func (t *injector) onServer(ctx context.Context, d draw) (err error) {
	s := d.server
	switch d.fault {
	case FaultFreeze:
		if err := s.child.freeze(); err != nil {
			return err
		}
		delay.Sleep(ctx, d.length)
		err = s.child.thaw()
	case FaultPartition:
		all := slices.Concat(s.to, s.from)
		cut(all, d.short)
		delay.Sleep(ctx, d.length)
		heal(all)
	case FaultServer, FaultKill, FaultWakes, FaultPlugin, FaultMCP:
		s.child.kill()
		if !d.short {
			delay.Sleep(ctx, d.length)
		}
		s.child, err = t.f.launch.start(context.WithoutCancel(ctx), Spec{Server: &s.spec})
	}
	if err != nil {
		return err
	}
	healed, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
	defer cancel()
	for !t.bus.Recovered(healed) {
		if !delay.Sleep(healed, 100*time.Millisecond) {
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
