package main

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/cmd/internal/program"
)

// print prints what was found, for these keys.
func (f *findings) print(e *env, tenants []note.Verifier) {
	for _, note := range f.Notes {
		e.println("note:", note)
	}
	for _, p := range f.Proven {
		e.println(p.String())
	}
	for _, g := range f.Tombstones {
		e.println(g.String())
	}
	for _, v := range tenants {
		e.printf("trusted: the key %s (%08x)\n", v.Name(), v.KeyHash())
	}
	if len(tenants) == 0 && len(f.Proven) == 0 && f.Unchecked == 0 && f.Sessions > 0 {
		e.println("note: no head is signed: these checks find damage, and no history that somebody wrote anew")
	}
	if f.Unchecked > 0 {
		e.printf("note: %s not checked: --key gives the tenant's public key\n", program.Number(f.Unchecked, "signed head"))
	}
	e.printf("checked %s and %s, invariants %s\n", program.Number(f.Prompts, "prompt"), program.Number(f.Blobs, "blob"), f.Invariants)
	if f.Bases > 0 {
		e.printf("compared bases of copies with their ancestors: %d\n", f.Bases)
	}
	if n := len(f.Tombstones); n > 0 {
		e.printf("erased: %s\n", program.Number(int64(n), "session"))
	}
	e.printf("verified %s, %s, %s\n", program.Number(f.Sessions, "session"), program.Number(f.Events, "event"), program.Number(f.Snapshots, "snapshot"))
	if n := len(f.Violations); n > 0 {
		e.println(program.Number(int64(n), "violation"))
	}
}
