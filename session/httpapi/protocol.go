package httpapi

import "encoding/json"

// extensionJSON is an extension of a session's or a turn's protocol.
type extensionJSON struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// extensionsJSON are the session's extensions, in the order in which its protocol receives them.
type extensionsJSON struct {
	Extensions []extensionJSON `json:"extensions" required:"is required"`
}
