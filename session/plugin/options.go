package plugin

import (
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Options is JSON by plugin id.
type Options map[string]string

// WithOptions makes a factory of a plugin with options. The session's own options replace these defaults as a whole.
func WithOptions[O any](id string, options O, build func(BuildContext, O) (Plugin, error)) Factory {
	return New(id, func(in BuildContext) (Plugin, error) {
		own, found, err := DecodeOptions[O](in.Options, id)
		if err != nil {
			return nil, err
		}
		if !found {
			own = options
		}
		return build(in, own)
	})
}

// OptionsOf makes the options of one plugin from a value that JSON can carry.
func OptionsOf(id string, v any) (Options, error) {
	o := make(Options)
	return o, o.Insert(id, v)
}

// Insert sets the options of a plugin and replaces earlier ones.
func (o Options) Insert(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("options of plugin %s: %w", id, err)
	}
	o[id] = string(data)
	return nil
}

// DecodeOptions decodes a plugin's options into T. found reports whether the plugin has options.
// Options that do not fit T are an error.
func DecodeOptions[T any](o Options, id string) (v T, found bool, err error) {
	text, found := o[id]
	if !found {
		return v, false, nil
	}
	if err := events.CheckJSON("options", []byte(text)); err != nil {
		return v, true, fmt.Errorf("options of plugin %s: %w", id, err)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, true, fmt.Errorf("options of plugin %s: %w", id, err)
	}
	return v, true, nil
}
