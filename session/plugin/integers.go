package plugin

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// withIntegers writes numbers without a fraction as Go reads integers: 2.0 and 2e0 are integers of JSON Schema, and models send them.
func withIntegers(args json.RawMessage) json.RawMessage {
	from := json.NewDecoder(bytes.NewReader(args))
	from.UseNumber()
	var value any
	if from.Decode(&value) != nil {
		return args
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				v[key] = walk(v[key])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case json.Number:
			const exact = 1 << 53
			if n, err := v.Float64(); err == nil && n == math.Trunc(n) && math.Abs(n) < exact && strings.ContainsAny(v.String(), ".eE") {
				return int64(n)
			}
		}
		return v
	}
	data, err := json.Marshal(walk(value))
	if err != nil {
		return args
	}
	return data
}
