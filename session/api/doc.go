// Package api is the language of the session service: what is asked of it,
// what it answers, and its errors. Hosts, clients and plugins share it. It is
// pure, and imports events and projector.
//
// Doors to the service tell errors by one table of codes, see [EncodeError],
// and hand on who asked, and under which key, with [WithAsked].
package api
