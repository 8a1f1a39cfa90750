// Package servicetest is the conformance suite of the session service: the host in its process, and the clients over
// NATS and HTTP, must pass it.
package servicetest
