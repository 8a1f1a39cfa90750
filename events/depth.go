package events

import (
	"fmt"
	"iter"
)

// MaxJSONDepth limits the nesting of arrays and objects in JSON input. Schema code reads the whole input again at
// each level.
const MaxJSONDepth = 128

// CheckJSON refuses JSON that nests deeper than [MaxJSONDepth] before it is parsed. It does not check that data is
// JSON. The error is a [*FieldError] that is [ErrTooLarge].
func CheckJSON(field string, data []byte) error {
	depth := 0
	for c := range jsonMarks(data) {
		switch c {
		case '{', '[':
			if depth++; depth > MaxJSONDepth {
				return &FieldError{Field: field, Reason: fmt.Sprintf("JSON nests deeper than %d levels", MaxJSONDepth), Err: ErrTooLarge}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// CheckJSONValues refuses JSON with more than limit commas outside texts, about its number of values, before it is parsed: each
// value takes more memory than its text. It does not check that data is JSON. The error is a [*FieldError] that is [ErrTooLarge].
func CheckJSONValues(field string, data []byte, limit int) error {
	values := 0
	for c := range jsonMarks(data) {
		if c != ',' {
			continue
		}
		if values++; values > limit {
			return &FieldError{Field: field, Reason: fmt.Sprintf("JSON has more than %d values", limit), Err: ErrTooLarge}
		}
	}
	return nil
}

// jsonMarks are the characters of JSON that surround and separate values, without those in texts.
func jsonMarks(data []byte) iter.Seq[byte] {
	return func(yield func(byte) bool) {
		text := false
		for i := 0; i < len(data); i++ {
			switch c := data[i]; {
			case text && c == '\\':
				i++
			case c == '"':
				text = !text
			case text:
			case c == '{' || c == '[' || c == '}' || c == ']' || c == ',':
				if !yield(c) {
					return
				}
			}
		}
	}
}
