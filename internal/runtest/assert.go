package runtest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// T is what an assertion needs of a test or benchmark, or of a property that a generator runs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test where there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantError fails the test unless got is want, as errors.Is compares them. A nil want is success.
func WantError(t T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Equal fails the test unless two values are equal.
func Equal[V comparable](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// DeepEqual is [Equal] for values that Go does not compare.
func DeepEqual(t T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// EqualLists fails the test unless two lists are equal.
func EqualLists[V comparable](t T, what string, got, want []V) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Contains fails the test unless a text has a part.
func Contains(t T, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want %q in it", what, got, part)
	}
}
