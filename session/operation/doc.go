// Package operation is the table of what can be asked of a session: one row an
// operation. The row has its name, what it takes and gives, the right that it
// needs, how a repeat is recognised, its method and path over HTTP, and the
// method of the host that does it.
//
//	session             does it: a method of [Host], which names the row in what it keeps of a request's key
//	session/service     serves the rows with a name over NATS
//	session/client      asks for them: [Remote] has a method a row
//	session/httpapi     serves the rows with a path over HTTP, and describes them in the OpenAPI document
//	session/servicetest has a case of each row with a name
//
// A new operation is a method of [api.Service] and of the host, a row here with
// its method of [Remote], its JSON in httpapi, and a case of the suite. The
// compiler asks for the methods, and tests for the rest: TestRoutesOfTable for the
// JSON, TestServiceLateRepeat for the case, TestHTTPDocument for each status that is
// documented, and four tables of expectations which say of every row what the
// table must not decide by itself: its right (TestRightsOverNATS), its key
// (TestKeysOfAll), the callers that reach it (TestReachOverNATS), and the
// capability that it is (TestReferences).
//
// Rows are variables as errors are: nothing assigns to them. Names, and the types
// that rows take and give over NATS, are part of the wire format: they are never
// renamed, and never reused.
package operation
