// Package eventstest owns what tests of histories share: generators of valid
// payloads and commits, the conformance suite of [events.Log], a log that
// fails on purpose, and the msgpack library as a reference for the encoder. Of
// this repository it imports only package events. Nothing in it sleeps or reads
// the clock.
package eventstest
