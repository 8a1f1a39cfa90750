package llm

import (
	"bytes"
	"regexp"
)

// escapes matches the escapes of JSON: a pair of surrogates, half of one, and any other.
var escapes = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|u[dD][89a-fA-F][[:xdigit:]]{2}|.)`)

// ValidUnicode returns JSON in which halves of surrogate pairs, and bytes that are not UTF-8, are U+FFFD: providers refuse
// requests with such a half, which a model that is cut within a character writes. The input is not changed.
func ValidUnicode(data []byte) []byte {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	if !bytes.Contains(data, []byte(`\u`)) {
		return data
	}
	return escapes.ReplaceAllFunc(data, func(escape []byte) []byte {
		if len(escape) == len(`\ud800`) {
			return []byte(`\ufffd`)
		}
		return escape
	})
}
