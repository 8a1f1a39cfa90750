package anthropic

import (
	"net/http"
	"regexp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

const (
	// defaultMaxTokens is sent for a request without a limit, because the API requires one. Today's models allow this many;
	// where an older one allows less, its refusal says how many.
	defaultMaxTokens = 32000
	maxCallID        = 64 // characters of a tool_use id
)

// signed is learned of models whose endpoint takes no thinking without a signature.
const signed = "signed"

// Config configures a provider. The key is sent as x-api-key. The base URL is by default "https://api.anthropic.com".
type Config = llm.Config

// object is a JSON object of a request.
type object = llm.Object

// New returns a provider, see [llm.NewEndpoint].
func New(cfg Config) (*llm.Endpoint, error) {
	return llm.NewEndpoint(llm.Wire{
		Name: "anthropic", BaseURL: "https://api.anthropic.com", KeyHeader: "X-Api-Key", Header: http.Header{"Anthropic-Version": {"2023-06-01"}},
		Path: "v1/messages", Models: "v1/models?limit=1000", Encode: encode, Decode: decode,
		CallID: func(raw events.CallID) string { return llm.Token(string(raw), maxCallID, "_-") },
		Tells:  map[string]*regexp.Regexp{signed: regexp.MustCompile("signature")},
	}, cfg)
}
