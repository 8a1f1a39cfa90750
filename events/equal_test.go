package events_test

import (
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestEqualComparesAllFields changes each field alone, so that a new field must be compared too.
func TestEqualComparesAllFields(t *testing.T) {
	t.Parallel()
	comparesAll(t, events.Config.Equal)
	comparesAll(t, events.Sampling.Equal)
	comparesAll(t, events.MonitorSpec.Equal)
	comparesAll(t, events.SameOffer, "Override")
}

// comparesAll requires that equal compares each field of T but some.
func comparesAll[T any](t *testing.T, equal func(x, y T) bool, without ...string) {
	t.Helper()
	fields := reflect.TypeFor[T]()
	for i := range fields.NumField() {
		if !fields.Field(i).IsExported() {
			continue // what a process knows of it
		}
		var zero, other T
		changed(t, reflect.ValueOf(&other).Elem().Field(i))
		ignored := len(without) > 0 && without[0] == fields.Field(i).Name
		if !equal(other, other) || equal(zero, other) != ignored || equal(other, zero) != ignored {
			t.Errorf("%s.%s: got equal %t, want %t", fields, fields.Field(i).Name, !ignored, ignored)
		}
	}
}

// changed makes a value another one than zero.
func changed(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		changed(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"x": "y"}))
	case reflect.Struct:
		changed(t, v.Field(0))
	default:
		t.Fatalf("no value of kind %s", v.Kind())
	}
}
