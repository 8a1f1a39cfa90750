package api_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestMalformedIsWhose checks that the error of a malformed request differs from the error of a malformed history.
func TestMalformedIsWhose(t *testing.T) {
	t.Parallel()
	_, garbage := api.DecodeRequest([]byte("garbage"))
	body := api.DecodeStrict([]byte{0xc1}, &api.CancelRequest{})
	for name, c := range map[string]struct {
		err   error
		code  string
		class api.Class
	}{
		"request": {garbage, "malformed_request", api.ClassInvalid},
		"body":    {fmt.Errorf("do: %w", body), "malformed_request", api.ClassInvalid},
		"history": {fmt.Errorf("read s: %w: sequence 3 is missing", events.ErrMalformed), "malformed", api.ClassInternal},
	} {
		code, class := api.Code(c.err)
		remote := api.DecodeError(api.EncodeError(c.err))
		if code != c.code || class != c.class || remote.Class != c.class || !errors.Is(remote, events.ErrMalformed) {
			t.Errorf("%s: got %s of class %s, which arrives as %s %v, want %s of %s, malformed", name, code, class, remote.Class, remote, c.code, c.class)
		}
	}
}
