package anthropic

import (
	"net/http"
	"regexp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

const (
	defaultMaxTokens = 32000    // of a request without a limit, which the API requires. Today's models allow this many; the refusal of an older one says how many
	signed           = "signed" // is learned of models whose endpoint takes no thinking without a signature
)

// Config configures a provider. The key is sent as x-api-key. The base URL is by default "https://api.anthropic.com".
type Config = llm.Config

// object is a JSON object of a request.
type object = llm.Object

// New returns a provider, see [llm.NewEndpoint].
func New(cfg Config) (*llm.Endpoint, error) {
	return llm.NewEndpoint(llm.Wire{
		Name: "anthropic", BaseURL: "https://api.anthropic.com", KeyHeader: "X-Api-Key", Header: http.Header{"Anthropic-Version": {"2023-06-01"}},
		Path: "v1/messages", Models: "v1/models?limit=1000", Encode: encode, Decode: decode,
		CallID: func(raw events.CallID) string { return llm.Token(string(raw), len(raw), "_-") },
		Tells:  map[string]*regexp.Regexp{signed: regexp.MustCompile("signature")},
	}, cfg)
}
