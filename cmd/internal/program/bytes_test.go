package program_test

import (
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]program.Bytes{
		"67108864": 64 << 20, "64MiB": 64 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "65536KiB": 64 << 20,
		"67108863": 0, "63MiB": 0, "-1GiB": 0, "1GB": 0, "1.5GiB": 0, "GiB": 0, "": 0, "9000000TiB": 0, "64MiBMiB": 0,
	} {
		var got program.Bytes
		if err := got.UnmarshalText([]byte(text)); (err != nil) != (want == 0) || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
}
