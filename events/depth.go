package events

import "fmt"

// MaxJSONDepth limits the nesting of arrays and objects in JSON input. Schema code reads the whole input again at
// each level.
const MaxJSONDepth = 128

// CheckJSON refuses JSON that nests deeper than [MaxJSONDepth] before it is parsed. It does not check that data is
// JSON. The error is a [*FieldError] that is [ErrTooLarge].
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
