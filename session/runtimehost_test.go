package session_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
)

// TestRuntimeHostHasCapabilitiesOnly checks that a type assertion on the value that plugins receive reaches no method
// beside the capabilities, as Erase of the host.
func TestRuntimeHostHasCapabilitiesOnly(t *testing.T) {
	t.Parallel()
	value := (&session.Host{}).Worker().RuntimeHost("s", nil, "")
	got, want := methods(reflect.TypeOf(value)), methods(reflect.TypeFor[plugin.RuntimeHost]())
	if !slices.Equal(got, want) {
		t.Errorf("methods of %T: got %v, want %v", value, got, want)
	}
}

func methods(t reflect.Type) []string {
	var names []string
	for m := range t.Methods() {
		names = append(names, m.Name)
	}
	return names
}
