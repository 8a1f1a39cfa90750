package harness

import (
	"errors"
	"reflect"
	"testing"

	"github.com/lash-go/lash/projector"
)

// WantError fails the test unless got is want, as errors.Is compares them. A nil want is success.
func WantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Equal fails the test unless two values are equal.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// DeepEqual is [Equal] for values that Go does not compare.
func DeepEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// EqualLists fails the test unless two lists are equal.
func EqualLists[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: got %v, want %v", what, got, want)
			return
		}
	}
}

// EqualSettings compares what turns of two sessions can do: configuration, plugin states, tool sources, overlay, extensions and tools.
func EqualSettings(t *testing.T, what string, got, want *projector.State) {
	t.Helper()
	DeepEqual(t, what+": configuration", got.Config, want.Config)
	DeepEqual(t, what+": plugin states", got.Plugins, want.Plugins)
	DeepEqual(t, what+": tool sources", got.ToolSources, want.ToolSources)
	DeepEqual(t, what+": overlay", got.Overlay.SessionOverlaid, want.Overlay.SessionOverlaid)
	DeepEqual(t, what+": extensions", got.Extensions, want.Extensions)
	DeepEqual(t, what+": tools", got.Catalog.Tools, want.Catalog.Tools)
}
