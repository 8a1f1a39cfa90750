// Package httpapi is the session service over HTTP: JSON and server-sent
// events. It imports events, projector, session/api, session/operation and the types of session/plugin, and
// reaches sessions only through [operation.Host].
//
// The table of operations (session/operation), with the JSON that routes.go
// gives each of its rows, makes both the handlers and the OpenAPI document at
// /v1/openapi.json, so neither has what the other lacks.
//
// huma is not used: version 2.37.2, also with RejectUnknownQueryParameters, takes
// a parameter that stands twice, a malformed query, and JSON of any depth, all of
// which are refused here, and what a request may hold and for how long is
// decided here before a body is read.
//
// A request whose answer was lost may be sent again as it is: with an
// Idempotency-Key it is done once, and answered as the first was. For what has
// an id of its own (sessions, turns, inputs, cancels) the key is the id. Keys match
// [A-Za-z0-9_-]{1,64}. A key belongs to its session, and there to its caller, operation,
// path and body: any other request with it is refused with 409. An id in the body
// alone names the turn or the input, and no request: the same content with it
// is the same one, whoever asks.
//
// An [Identifier] authenticates requests, and the name of its [Caller] is the
// actor in histories. [Tokens] is one, of bearer tokens and client certificates.
// A request that stays open ends within [Config.Recheck] after its caller lost
// the right to it.
//
// GET /v1/sessions/{session}/events sends every commit after the cursor once
// and in order, each as a "commit" whose id is its sequence. "delta" and "gap"
// have no id, so Last-Event-ID is always the last commit, and a client that
// reconnects with it misses nothing. When the server drains, streams end and
// their connections close; the client resumes elsewhere.
//
// POST /v1/sessions/{session}/completions/stream sends the reply to a direct completion as it comes: "delta", and one
// last event, "result", which is what /completions answers, or "problem". What refuses it before the model speaks is an
// answer as everywhere. A client that disconnects cancels the call of the model. A server that drains lets it end, as
// /completions, and when it cuts it off says so as the "problem" cancelled: it may have been done, and the same request with its
// key finds that. What a slow client has not read waits in the server's memory: never more than the one reply.
//
// What a token may in a session, [api.Caller.May] says: the service holds every
// request to it, on the state that it answers from or appends to. A session that the token
// does not reach is answered as one that does not exist.
//
// A reader that is slow slows nobody: what it misses is read back from the log.
// One that takes no byte for [Config.WriteTimeout] is cut off.
//
// Tokens are kept as digests and compared in constant time. They never reach a
// log line, an answer or a session. A browser's EventSource cannot send one:
// read streams with fetch.
package httpapi
