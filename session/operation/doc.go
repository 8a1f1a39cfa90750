// Package operation is the table of operations on sessions, with one row for each. A row has the operation's name,
// its request and answer types, the right that it needs, how a repeat is recognised, its method and path over HTTP,
// and the method of the host that performs it.
//
//	session          performs it: a method of its Host, which stores the row's name with the request's key
//	session/service  serves the rows with a name over NATS
//	session/client   sends the requests: [Requests] has a method for each row
//	session/httpapi  serves the rows with a path over HTTP, and describes them in the OpenAPI document
//
// The suite integration/internal/servicetest has a case for each row with a name.
//
// A new operation is a method of [api.Service] and of the host, a row here with its method of [Requests], and a case of
// the suite. Over HTTP its JSON is that of its Go types, or it has a form or a handler of its own in httpapi. The compiler finds
// missing methods, and a row without rights. Tests find the rest: TestForms a type without JSON names, TestServiceLateRepeat the case,
// TestHTTPDocument each documented status. An operation that changes something also has its right in the tables of
// TestSmokeRightsOverNATS and TestHTTPDocument, and its requests with a key in that of TestSmokeKeysOfAll.
//
// Rows are variables, as errors are: no code assigns to them. Names, and the types of requests and answers over NATS,
// are part of the wire format: they are never renamed, and never reused.
package operation
