package registry

import (
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/session/plugin/wire"
)

// idTerms are the terms of the programs that had one id. Nodes choose the one with the greater term:
//
//	program A                 node                          program B
//	signs with term 1    ──►  A has the id
//	                          another node registered B  ◄──  signs with term 2
//	                          B has the id; both get "register"
//	registers, term 1    ──►  refused: A ends                 registers, term 2: accepted
//
// A call names the term that its node knows, so the other program does not run it.
type idTerms struct {
	last   string
	reused bool // there was another one before
}

// maxTerms limits the ids whose terms a node remembers. Beyond them it forgets those of instances that are gone.
const maxTerms = 4 * maxInstances

// conflictEvery is how often a node has two programs with one id register again.
const conflictEvery = time.Second

// winsLocked reports whether a sign of life is of the program that has the id: the one whose term is the greatest of those that live.
// Otherwise both programs are requested to register again.
func (r *Registry) winsLocked(name string, k *known, id, term string) bool {
	known, had := k.terms[id]
	if i := k.instances[id]; k.livesLocked(id) && term < i.Term {
		k.terms[id] = idTerms{known.last, true}
		if now := time.Now(); now.Sub(k.conflictSent) >= conflictEvery {
			k.conflictSent = now
			r.log.Warn("two programs have the id of one instance: give each start of a program an id of its own", zap.String("plugin", name), zap.String("instance", id))
			_ = r.bus.TellInstance(name, id, wire.VerbRegister, nil) // the next sign of life leads here again
		}
		return false
	}
	if term == known.last {
		return true
	}
	if k.terms == nil {
		k.terms = make(map[string]idTerms)
	}
	if len(k.terms) >= maxTerms {
		for old := range k.terms {
			if !k.livesLocked(old) {
				delete(k.terms, old)
			}
		}
	}
	k.terms[id] = idTerms{term, had}
	return true
}

// Term is the term of the program that has an id, or had it last; empty where this node knows none. reused: another program had the id
// before.
func (r *Registry) Term(name, id string) (term string, reused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.byName[name].terms[id]
	return t.last, t.reused
}

// termPause is the wait between two looks at a program that may live.
const termPause = wire.SignEvery / 20

// signsWait is how long a node that starts receives signs of life, before it registers a program that may be the copy of another one.
const signsWait = wire.SignEvery / 2

// awaitSigns begins that time for the plugins that have registered before. Without it a copy of a program would be registered that nodes
// refuse else, and the program, with its calls, would be refused in its place.
func (r *Registry) awaitSigns() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.byName {
		if k.revision > 0 {
			k.signsUntil = time.Now().Add(signsWait)
		}
	}
}

// mayBeCopy reports whether a program that registers may be the copy of one whose signs this node, which has just started, lacks.
func (r *Registry) mayBeCopy(name, id, term string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	return term == "" && k.instances[id] == nil && time.Now().Before(k.signsUntil)
}

// awaitTerm waits before a registration is handled, and before it counts as one that is: until another program with its id sends
// the next sign of life, or its lease is over. A program that starts again is accepted then:
//
//	program A                 node                          program A, started again
//	signs with term 1    ──►
//	ends                      waits for A                ◄──  registers, without a term
//	                          the lease of A is over     ──►  has term 2
func (r *Registry) awaitTerm(name, op string, data []byte) {
	var in struct {
		Instance string `json:"instance"`
		Term     string `json:"term"`
	}
	if r.byName[name] == nil || op != wire.VerbRegister || len(data) > wire.MaxManifestBytes || wire.Decode(data, &in) != nil {
		return // Answer refuses it
	}
	for r.mayBeCopy(name, in.Instance, in.Term) && delay.Sleep(r.ctx, termPause) {
	}
	first, end := r.otherProgram(name, in.Instance, in.Term), time.Now().Add(2*wire.Lease)
	for now := first; now != nil && now == first && time.Now().Before(end) && delay.Sleep(r.ctx, termPause); {
		now = r.otherProgram(name, in.Instance, in.Term)
	}
}

// checkTerm refuses a registration while another program with its id lives.
func (r *Registry) checkTerm(name, id, term string) error {
	if r.otherProgram(name, id, term) == nil {
		return nil
	}
	return &wire.Error{
		Code: wire.CodeConflict, Field: "instance",
		Message: "another program with the id " + id + " lives: give each start of a program an id of its own",
	}
}

// otherProgram is the last sign of a program that has the id of a registration, and a greater term; nil if none lives.
func (r *Registry) otherProgram(name, id, term string) *instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	if i := k.instances[id]; k.livesLocked(id) && term < i.Term {
		return i
	}
	return nil
}
