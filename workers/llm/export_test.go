package llm

// What tests need beside the interface.
var (
	RetryAfter = retryAfter
	Redact     = redact
	RawBody    = rawBody
)

// Limits of a reply.
const (
	MaxReplyBytes = maxReplyBytes
	MaxEvent      = maxEvent
)

// Assemble joins updates to a response.
func Assemble(sink func(Delta), updates ...Update) (Response, error) {
	a := newAssembly(&Endpoint{Name: "p", Base: "https://host/v1", Key: "sk-secret"}, sink)
	for _, u := range updates {
		if err := a.add(u); err != nil {
			return a.end(err)
		}
	}
	return a.end(nil)
}
