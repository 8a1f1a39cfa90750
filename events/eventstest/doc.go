// Package eventstest has shared test support for histories: generators of valid payloads and commits, the conformance
// suite of [events.Log], a log with injected faults, and a signer of heads. It
// imports packages events and proof only. It does not sleep and does not read the clock.
package eventstest
