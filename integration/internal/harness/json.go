package harness

import (
	"bytes"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/httpbody"
)

// Nest is opening n times, inside, and closing n times.
func Nest(n int, opening, inside, closing string) []byte {
	return bytes.Join([][]byte{bytes.Repeat([]byte(opening), n), []byte(inside), bytes.Repeat([]byte(closing), n)}, nil)
}

// PartsJSON is a list of parts as HTTP requests have it.
func PartsJSON(list []events.Part) (parts []httpbody.GivenPart) {
	for _, p := range list {
		part := httpbody.GivenPart{Type: httpbody.GivenType(p.Kind), Text: p.Text, MediaType: p.MediaType}
		if !p.Blob.IsZero() {
			part.Blob = (*httpbody.Blob)(&p.Blob)
		}
		parts = append(parts, part)
	}
	return parts
}
