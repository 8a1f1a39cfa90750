package main

import "github.com/lash-go/lash/cmd/internal/program"

// verifyReport is what verify prints, as text or as JSON.
type verifyReport struct {
	counts
	Invariants string       `json:"invariants"` // how often they were checked
	Violations []finding    `json:"violations"`
	Proven     []*proven    `json:"proven,omitempty"`          // by session
	Tombstones []*tombstone `json:"tombstones,omitempty"`      // of erased sessions
	Unchecked  int64        `json:"unchecked_heads,omitempty"` // for want of a key
	Trusted    []string     `json:"trusted,omitempty"`         // names of tenants' keys
	Notes      []string     `json:"notes,omitempty"`           // what could not be checked
	trust      *trust
}

// report is the output for what was found.
func (r *verifyRun) report() *verifyReport {
	out := &verifyReport{
		counts: r.found.counts, Invariants: "after every commit", Violations: append([]finding{}, r.found.violations...),
		Proven: r.found.proven, Tombstones: r.found.tombstones, Unchecked: r.found.unchecked, Notes: r.found.notes, trust: r.trust,
	}
	for _, v := range r.trust.tenants {
		out.Trusted = append(out.Trusted, v.Name())
	}
	return out
}

func (r *verifyReport) print(e *env) {
	for _, note := range r.Notes {
		e.println("note:", note)
	}
	r.printProven(e)
	e.printf("checked %s and %s, invariants %s\n", program.Number(r.Prompts, "prompt"), program.Number(r.Blobs, "blob"), r.Invariants)
	if r.Bases > 0 {
		e.printf("compared bases of copies with their ancestors: %d\n", r.Bases)
	}
	if n := len(r.Tombstones); n > 0 {
		e.printf("erased: %s\n", program.Number(int64(n), "session"))
	}
	e.printf("verified %s, %s, %s\n", program.Number(r.Sessions, "session"), program.Number(r.Events, "event"), program.Number(r.Snapshots, "snapshot"))
	if n := len(r.Violations); n > 0 {
		e.println(program.Number(int64(n), "violation"))
	}
}

// printProven prints what the heads prove.
func (r *verifyReport) printProven(e *env) {
	for _, p := range r.Proven {
		e.println(p.String())
	}
	for _, g := range r.Tombstones {
		e.println(g.String())
	}
	for _, v := range r.trust.tenants {
		e.printf("trusted: the key %s (%08x)\n", v.Name(), v.KeyHash())
	}
	if len(r.trust.tenants) == 0 && len(r.Proven) == 0 && r.Unchecked == 0 && r.Sessions > 0 {
		e.println("note: no head is signed: these checks find damage, and no history that somebody wrote anew")
	}
	if r.Unchecked > 0 {
		e.printf("note: %s not checked: --key gives the tenant's public key\n", program.Number(r.Unchecked, "signed head"))
	}
}
