package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// inputOf is what a call's arguments say; their text if they are no JSON.
func inputOf(args []byte) any {
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}
	}
	if v := anyOf(json.RawMessage(args)); v != nil {
		return v
	}
	return string(args)
}

// anyOf is a value as maps, lists, texts and numbers. It is nil for what is no JSON.
func anyOf(v any) any {
	line, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return nil
	}
	return numbers(out)
}

// numbers replaces numbers by whole ones where they are, because CBOR has no text for numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if x, err := v.Float64(); err == nil && !strings.Contains(v.String(), "Inf") {
			return x
		}
		return v.String()
	}
	return v
}

// RecordJSON writes a record as one line of JSON.
func RecordJSON(w io.Writer, r *Record) error {
	line, err := encode(r)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// RecordCBOR is a record as CBOR, in the core deterministic encoding.
func RecordCBOR(r *Record) ([]byte, error) {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return mode.Marshal(r)
}
