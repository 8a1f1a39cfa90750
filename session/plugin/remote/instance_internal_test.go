package remote

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestInstanceIDsAreNew makes ids of each name twice. They begin with the name, and differ.
func TestInstanceIDsAreNew(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "pod-7d9f", strings.Repeat("n", wire.MaxInstanceName)} {
		one, err := instanceID(name)
		two, again := instanceID(name)
		if err = errors.Join(err, again, events.CheckToken("id", one), events.CheckToken("id", two)); err != nil || one == two || !strings.HasPrefix(one, name) {
			t.Errorf("name %q: got %q and %q, %v, want two ids of it", name, one, two, err)
		}
	}
	for _, name := range []string{strings.Repeat("n", wire.MaxInstanceName+1), "a.b", "a b"} {
		_, err := instanceID(name)
		if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "config.instance" {
			t.Errorf("name %q: got %v, want a refusal of config.instance", name, err)
		}
	}
}
