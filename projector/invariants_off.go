//go:build !invariants

package projector

const invariants = false
