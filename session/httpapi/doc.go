// Package httpapi serves the session service over HTTP: JSON and server-sent events. It reaches sessions only through
// [operation.Host].
//
// The table of operations (session/operation) and the table in routes.go define both the handlers and the
// OpenAPI document at /v1/openapi.json, so the two always agree. The types of requests and answers are those of the service. Where their
// JSON has other values, form.go converts them to a form.
//
// The package does not use huma: version 2.37.2, also with RejectUnknownQueryParameters, accepts a repeated
// parameter, a malformed query, and JSON of any depth. This package refuses these, and checks the size and the time
// limits of a request before it reads a body.
//
// # Repeats
//
// A request whose answer was lost may be repeated unchanged. With an Idempotency-Key it takes effect once, and the
// repeat gets the first answer. For resources with an id (sessions, turns, inputs, cancels) the key is the id. Keys
// match [A-Za-z0-9_-]{1,64}. A key belongs to its session, and there to its caller, operation, path and body: any
// other request with it is refused with 409. An id in the body alone identifies the turn or the input, and not the
// request: the same content with the id is the same turn or input, from any caller.
//
// # Callers
//
// An [Identifier] authenticates requests. The name of its [Caller] is the actor of commits. [Tokens] identifies
// bearer tokens and client certificates. An open request ends within [Config.Recheck] after its caller lost the right
// to it.
//
// [api.Caller.Check] is the authorization rule. The service applies it to the state that a request reads or appends to.
// A session that the caller does not reach gives the same error as one that does not exist.
//
// Tokens are stored as digests and compared in constant time. No log line, response or session contains one. A
// browser's EventSource cannot send a token: read streams with fetch.
//
// # Streams
//
// GET /v1/sessions/{session}/events sends every commit after the cursor once and in order, each as a "commit" whose
// id is its sequence. "delta" and "gap" have no id, so Last-Event-ID is always the last commit, and a client that
// reconnects with it misses no commit. Where lost commits were accepted, the history is replaced: a stream ends with the "problem" cursor, and a
// client reads from the start again. The id is a number alone: a client that reconnects when the new history is as long as the lost one does
// not notice it. When the server drains, streams end and their connections close; the client
// reconnects to another server.
//
// POST /v1/sessions/{session}/completions/stream streams the reply to a direct completion: "delta" events, and one
// last event, "result", with the body of /completions, or "problem". A refusal before the reply starts is a normal
// response. A client that disconnects cancels the model call. A server that drains lets it finish, as for
// /completions. If the server cuts it off, the last event is the "problem" cancelled: the outcome is unknown, and a
// repeat with the same key finds it. The server buffers at most one reply for a slow client.
//
// A slow reader delays no other reader: the server reads the missed commits from the log. A reader that reads no byte
// for [Config.WriteTimeout] is cut off.
//
// # Why one package
//
// The package has more than 3 000 lines because it has the JSON of every operation that differs from its Go types, the handlers that
// need more than that, and the parts that all handlers share. The document is made from the same
// routes. What could be cut are the limits of connections, callers and bytes (connections.go, slots.go, traffic.go),
// and the tokens (tokens.go), together a tenth of the lines. Both export types in [Config] and [Server], so the cut
// would move names that programs use, and the rest would still have more than 3 000 lines. Callers by signed tokens have other
// dependencies, and so a package of their own, oidc.
package httpapi
