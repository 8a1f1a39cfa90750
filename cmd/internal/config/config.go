// Package config reads the configuration file of commands.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// MaxBytes bounds a configuration file.
const MaxBytes = 1 << 20

// ErrTooLarge means that the configuration file exceeds [MaxBytes].
var ErrTooLarge = fmt.Errorf("the file is above the limit of %d bytes", MaxBytes)

// JSON is [kong.JSON] with the flag names of --help. It refuses keys that name no flag, because a misspelt key would
// have no effect. It reads at most one byte more than [MaxBytes]. Its errors begin with from, which names the file. Errors:
// [ErrTooLarge].
func JSON(from string, r io.Reader) (kong.Resolver, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	written := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object: %w", from, err)
	}
	values := make(map[string]json.RawMessage)
	for key, value := range written {
		values[strings.ReplaceAll(key, "-", "_")] = value
	}
	if data, err = json.Marshal(values); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	inner, err := kong.JSON(bytes.NewReader(data))
	return strictResolver{inner, from, slices.Sorted(maps.Keys(values))}, err
}

type strictResolver struct {
	kong.Resolver
	from string // names the file in errors
	keys []string
}

func (s strictResolver) Validate(app *kong.Application) error {
	known := make(map[string]bool)
	for _, leaf := range append(app.Leaves(false), app.Node) {
		if !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "config" }) {
			continue
		}
		for _, f := range leaf.Flags {
			known[strings.ReplaceAll(f.Name, "-", "_")] = f.Name != "config"
		}
	}
	var errs []error
	for _, key := range s.keys {
		if !known[key] {
			errs = append(errs, fmt.Errorf("%s: %q is no flag's name", s.from, key))
		}
	}
	return errors.Join(errs...)
}
