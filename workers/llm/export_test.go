package llm

import "github.com/lash-go/lash/events"

// What tests need beside the interface.
var (
	RetryAfter = retryAfter
	Redact     = redact
	RawBody    = func(body []byte, key string) string { return rawBody(body, (&Endpoint{secrets: []string{key}}).redact) }
)

// Class is the kind of a failure inside a stream.
func (f Failure) Class() ErrorKind { return f.kind(0) }

// Limits of a reply.
const (
	MaxReplyBytes = maxReplyBytes
	MaxEvent      = maxEvent
)

// Dialog is the dialog of messages for an endpoint that takes all ids.
func Dialog(messages []events.Message) ([]events.Message, error) {
	p := Prepared{endpoint: bare("p", "https://host/v1")}
	return p.dialog(messages, p.endpoint.wire.CallID)
}

// Prepare is a request for the endpoint of a name at a base.
func Prepare(name, base string, req Request) (*Prepared, error) {
	return bare(name, base).prepare(req)
}

// Assemble joins updates to a response.
func Assemble(sink func(Delta), updates ...Update) (Response, error) {
	p := &Prepared{Request: Request{Model: "m"}, endpoint: bare("p", "https://host/v1")}
	a := newAssembly(p, sink)
	for _, u := range updates {
		if err := a.add(u); err != nil {
			return a.end(err)
		}
	}
	return a.end(nil)
}

func bare(name, base string) *Endpoint {
	e, err := NewEndpoint(Wire{Name: name, KeyHeader: "Authorization", CallID: func(id events.CallID) string { return string(id) }}, Config{APIKey: "sk-secret", BaseURL: base})
	if err != nil {
		panic(err)
	}
	return e
}
