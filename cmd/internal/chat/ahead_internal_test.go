package chat

import (
	"io"
	"os"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestKeysBeforeTheFirstRead types enter before the first read, and ctrl-j after it.
func TestKeysBeforeTheFirstRead(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	runtest.NoError(t, err)
	defer r.Close() //nolint:errcheck // it is only read
	defer w.Close() //nolint:errcheck // the test has read all of it
	in, buf := &ahead{File: r}, make([]byte, 64)
	for _, tc := range [][2]string{{"one\ntwo\n", "one\rtwo\r"}, {"a\nb\r", "a\nb\r"}} {
		_, err = io.WriteString(w, tc[0])
		runtest.NoError(t, err)
		n, err := in.Read(buf)
		if got := string(buf[:n]); err != nil || got != tc[1] {
			t.Errorf("%q: got %q, %v, want %q", tc[0], got, err, tc[1])
		}
	}
}
