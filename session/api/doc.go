// Package api is the language of the session service: what is asked of it,
// what it answers, and its errors. Hosts, clients and plugins share it. It is
// pure, and imports events and projector.
package api
