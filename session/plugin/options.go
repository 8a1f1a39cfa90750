package plugin

import (
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Options are JSON for plugins, by plugin id.
type Options map[string]string

// WithOptions makes a factory of a plugin with options. Where a session has
// options for the plugin, they stand in place of these.
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

// OptionsOf are the options of one plugin.
func OptionsOf(id string, v any) (Options, error) {
	o := make(Options)
	return o, o.Insert(id, v)
}

// Insert sets a plugin's options, in place of earlier ones.
func (o Options) Insert(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("options of plugin %s: %w", id, err)
	}
	o[id] = string(data)
	return nil
}

// DecodeOptions reads a plugin's options. It reports whether there are any;
// those that do not fit T are an error.
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
