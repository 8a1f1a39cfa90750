// Package api has the requests, the answers and the errors of the session service. Hosts, clients and plugins share
// it. It is pure, and imports events and projector.
//
// Servers map errors to codes by one table, see [EncodeError], and attach the actor and the key of a request with
// [WithRequestMeta].
package api
