// Package eventstest owns what tests of histories share: generators of valid
// payloads and commits, the conformance suite of [events.Log], and a log that
// fails on purpose. It imports only package events. Nothing in it sleeps or
// reads the clock.
package eventstest
