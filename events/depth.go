package events

import "fmt"

// MaxJSONDepth is how deep JSON from anywhere may nest: arrays and objects within each
// other. What reads a schema, for one, reads the whole again at each level.
const MaxJSONDepth = 128

// CheckJSON refuses JSON of a field that nests deeper than [MaxJSONDepth], before anything reads
// it. It does not say that it is JSON. The error is a [*FieldError] that is [ErrTooLarge].
func CheckJSON(field string, data []byte) error {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > MaxJSONDepth {
				return &FieldError{Field: field, Reason: fmt.Sprintf("JSON nests deeper than %d levels", MaxJSONDepth), Err: ErrTooLarge}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
