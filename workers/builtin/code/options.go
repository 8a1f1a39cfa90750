package code

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/schema"
)

// Termination says how a turn may end.
type Termination string

// The terminations. The zero value is natural.
const (
	Natural        Termination = "natural"         // a reply without code is the answer; so is finish
	FinishRequired Termination = "finish_required" // only finish ends the turn
)

// Options are the protocol's turn options. Durable options are set as plugin options at a session's creation or by a
// host. The options of one turn replace them. The JSON has no other fields.
type Options struct {
	Termination  Termination        `json:"termination,omitempty"`
	FinishSchema *jsonschema.Schema `json:"finish_schema,omitempty"` // of the value of finish; nil accepts any
	// ContinueAt is the filled part of the context window, in percent, at which a turn continues in a new frame. 0:
	// never. A window of unknown size is never full.
	ContinueAt int64 `json:"continue_at_percent,omitempty"`
}

// ParseOptions reads options; empty data is the zero value.
func ParseOptions(data []byte) (Options, error) {
	var o Options
	if len(data) == 0 {
		return o, nil
	}
	if err := events.CheckJSON("code options", data); err != nil {
		return Options{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return Options{}, fmt.Errorf("code options: %w", err)
	}
	return o, o.check()
}

func (o *Options) check() error {
	switch o.Termination {
	case "", Natural, FinishRequired:
	default:
		return fmt.Errorf("code options: unknown termination %q", o.Termination)
	}
	if o.ContinueAt < 0 || o.ContinueAt > 100 {
		return fmt.Errorf("code options: continue_at_percent: %d, want 0 to 100", o.ContinueAt)
	}
	if o.FinishSchema != nil {
		if _, err := schema.Compile("finish_schema", o.FinishSchema); err != nil {
			return fmt.Errorf("code options: %w", err)
		}
	}
	return nil
}
