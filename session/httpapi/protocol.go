package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// protocolOptionsJSON are the protocol's durable options for turns.
type protocolOptionsJSON struct {
	Options   json.RawMessage `json:"options"`
	AllFrames bool            `json:"all_frames,omitempty" jsonschema:"true: for all frames; else for the current one"`
}

// extensionJSON is an extension of a session's or a turn's protocol.
type extensionJSON struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// extensionsJSON are the session's extensions, in the order in which its protocol receives them.
type extensionsJSON struct {
	Extensions []extensionJSON `json:"extensions"`
}

func (e extensionJSON) extension() events.Extension {
	return events.Extension{Type: e.Type, Body: e.Body}
}

func (in protocolOptionsJSON) args(*httpRequest) (api.ProtocolOptionsArgs, error) {
	return api.ProtocolOptionsArgs{Options: in.Options, All: in.AllFrames}, nil
}

func (in extensionsJSON) args(*httpRequest) ([]events.Extension, error) {
	if in.Extensions == nil {
		return nil, missingField("extensions")
	}
	list := make([]events.Extension, len(in.Extensions))
	for i, e := range in.Extensions {
		list[i] = e.extension()
	}
	return list, nil
}

func (e extensionJSON) args(*httpRequest) (events.Extension, error) { return e.extension(), nil }
