package plugin

import (
	"reflect"
	"testing"
)

// TestDeclaredFields: each kind of registration either runs in a program of its own, or has a name for the refusal.
func TestDeclaredFields(t *testing.T) {
	t.Parallel()
	c := reflect.TypeFor[contributions]()
	for i := range c.NumField() {
		if name := c.Field(i).Name; movable(name) == (boundNames()[name] != "") {
			t.Errorf("%s: got movable %v and the name %q, want one of them", name, movable(name), boundNames()[name])
		}
	}
}
