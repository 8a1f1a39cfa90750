package llm

// What tests need beside the interface.
var (
	RetryAfter = retryAfter
	Redact     = redact
	RawBody    = func(body []byte, key string) string { return rawBody(body, (&Endpoint{Key: key}).redact) }
)

// Class is the kind of a failure inside a stream.
func (f Failure) Class() ErrorKind { return f.kind(0) }

// Limits of a reply.
const (
	MaxReplyBytes = maxReplyBytes
	MaxEvent      = maxEvent
)

// Assemble joins updates to a response.
func Assemble(sink func(Delta), updates ...Update) (Response, error) {
	a := newAssembly(&Endpoint{Name: "p", Base: "https://host/v1", Key: "sk-secret"}, &Request{Model: "m"}, sink)
	for _, u := range updates {
		if err := a.add(u); err != nil {
			return a.end(err)
		}
	}
	return a.end(nil)
}
