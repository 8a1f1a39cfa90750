package external

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/session/plugin/wire"
)

// heardTerms are the terms of the programs that had one id. Nodes choose the one with the greater term:
//
//	program A                 node                          program B
//	signs with term 1    ──►  A has the id
//	                          another node registered B  ◄──  signs with term 2
//	                          B has the id; both get "register"
//	registers, term 1    ──►  refused: A ends                 registers, term 2: accepted
//
// A call names the term that its node knows, so the other program does not run it.
type heardTerms struct {
	last   string
	reused bool // there was another one before
}

// maxTerms limits the ids whose terms a node remembers. Beyond them it forgets those of instances that are gone.
const maxTerms = 4 * maxInstances

// tellEvery is how often a node tells two programs with one id to register again.
const tellEvery = time.Second

// winsLocked reports whether a sign of life is of the program that has the id: the one whose term is the greatest of those that live. The
// other one is told.
func (p *Plugins) winsLocked(name string, k *known, id, term string) bool {
	known, had := k.terms[id]
	if i := k.instances[id]; k.livesLocked(id) && term < i.Term {
		k.terms[id] = heardTerms{known.last, true}
		if now := time.Now(); now.Sub(k.told) >= tellEvery {
			k.told = now
			p.log.Warn("two programs have the id of one instance: give each start of a program an id of its own", zap.String("plugin", name), zap.String("instance", id))
			_ = p.bus.TellInstance(name, id, wire.VerbRegister, nil) // the next sign of life leads here again
		}
		return false
	}
	if term == known.last {
		return true
	}
	if k.terms == nil {
		k.terms = make(map[string]heardTerms)
	}
	if len(k.terms) >= maxTerms {
		for old := range k.terms {
			if !k.livesLocked(old) {
				delete(k.terms, old)
			}
		}
	}
	k.terms[id] = heardTerms{term, had}
	return true
}

// livesLocked reports whether a sign of life of an instance is younger than its lease.
func (k *known) livesLocked(id string) bool {
	i := k.instances[id]
	return i != nil && k.clock()-i.heard <= wire.Lease
}

// termOf is the term of the program that has an id, or had it last; empty where this node has heard none. reused: this node has heard another program with the id.
func (p *Plugins) termOf(name, id string) (term string, reused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.byName[name].terms[id]
	return t.last, t.reused
}

// termPause is the wait between two looks at a program that may live.
const termPause = wire.SignEvery / 20

// listenWait is how long a node that starts listens to the programs that live, before it registers another one.
const listenWait = wire.SignEvery / 2

// listen begins that time for the plugins that have registered before. Without it a copy of a program would be registered that nodes
// refuse else, and the program, with its calls, would be refused in its place.
func (p *Plugins) listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.byName {
		if k.revision > 0 {
			k.listens = time.Now().Add(listenWait)
		}
	}
}

// listensFor reports whether the program of a registration may be the copy of one that this node, which has just started, has not heard yet.
func (p *Plugins) listensFor(name string, in *wire.Registration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	return in.Term == "" && k.instances[in.Instance] == nil && time.Now().Before(k.listens)
}

// checkTerm refuses a registration once the other program with its id sends another sign of life. A program that starts again is accepted at
// the end of the lease of its earlier run:
//
//	program A                 node                          program A, started again
//	signs with term 1    ──►
//	ends                      waits for A                ◄──  registers, without a term
//	                          the lease of A is over     ──►  has term 2
func (p *Plugins) checkTerm(name string, in *wire.Registration) error {
	for p.listensFor(name, in) {
		if !delay.Sleep(p.ctx, termPause) {
			return context.Cause(p.ctx)
		}
	}
	first := p.otherProgram(name, in)
	for now, end := first, time.Now().Add(2*wire.Lease); now != nil; now = p.otherProgram(name, in) {
		if now != first || time.Now().After(end) { // or this node receives no signs; the program has repeated its request
			return &wire.Error{
				Code: wire.CodeConflict, Field: "instance",
				Message: "another program with the id " + in.Instance + " lives: give each start of a program an id of its own",
			}
		}
		if !delay.Sleep(p.ctx, termPause) {
			return context.Cause(p.ctx)
		}
	}
	return nil
}

// otherProgram is the last sign of a program that has the id of a registration, and a greater term; nil if none lives.
func (p *Plugins) otherProgram(name string, in *wire.Registration) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	if i := k.instances[in.Instance]; k.livesLocked(in.Instance) && in.Term < i.Term {
		return i
	}
	return nil
}
