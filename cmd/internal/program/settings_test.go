package program_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
)

// endless is a file of blanks that counts the bytes read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

// TestSettingsBounded reads a file of 1 MiB, one that is a byte longer, and an endless one.
func TestSettingsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	padded := func(size int) io.Reader {
		const file = `{"store":"x"}`
		return strings.NewReader(file + strings.Repeat(" ", size-len(file)))
	}
	if _, err := program.ReadSettings(padded(limit)); err != nil {
		t.Errorf("got %v, want a file of the limit read", err)
	}
	if _, err := program.ReadSettings(padded(limit + 1)); !errors.Is(err, program.ErrTooLarge) || err.Error() != "the file is above the limit of 1048576 bytes" {
		t.Errorf("got %v, want %v", err, program.ErrTooLarge)
	}
	e := &endless{}
	if _, err := program.ReadSettings(e); !errors.Is(err, program.ErrTooLarge) || e.read > 2*limit {
		t.Errorf("got %v after %d bytes, want %v and no more than is needed read", err, e.read, program.ErrTooLarge)
	}
}

// TestDeepSettings reads values that are nested deeper than any setting's.
func TestDeepSettings(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{20_000, 100_000} {
		for _, pair := range []struct{ open, end string }{{"[", "]"}, {`{"a":`, "}"}} {
			file := `{"store":` + strings.Repeat(pair.open, depth) + "1" + strings.Repeat(pair.end, depth) + "}"
			if _, err := program.ReadSettings(strings.NewReader(file)); err == nil {
				t.Errorf("%d of %q: got no error", depth, pair.open)
			}
		}
	}
}
