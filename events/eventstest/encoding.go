package eventstest

import (
	stdbytes "bytes"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestEncoding checks that values of the examples' types survive: what is decoded of an encoding has the same encoding. The values are drawn field
// by field and may be invalid. It runs one subtest per example.
func TestEncoding(t *testing.T, examples ...any) {
	for _, example := range examples {
		of := reflect.TypeOf(example)
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v, again := reflect.New(of), reflect.New(of)
				drawValue(t, v.Elem(), 8)
				want, err := events.EncodePayload(v.Interface())
				if err == nil {
					err = events.DecodePayload(want, again.Interface())
				}
				runtest.NoError(t, err)
				for _, v := range []any{again.Interface(), again.Elem().Interface(), v.Elem().Interface()} {
					if got, err := events.EncodePayload(v); err != nil || !stdbytes.Equal(got, want) {
						t.Fatalf("%#v: got %x, %v, want %x", v, got, err, want)
					}
				}
			})
		})
	}
}

// edges are numbers around which the size of an encoded number or length changes.
var edges = []int64{
	0, 1, 15, 16, 31, 32, 127, 128, 255, 256, math.MaxInt16, math.MaxInt16 + 1, math.MaxUint16, math.MaxUint16 + 1,
	math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64,
	-1, -32, -33, -128, -129, math.MinInt16, math.MinInt16 - 1, math.MinInt32, math.MinInt32 - 1, math.MinInt64,
}

func number(t *rapid.T) int64 {
	if flag(t) {
		return one(t, edges...)
	}
	return rapid.Int64().Draw(t, "number")
}

// words draws texts, including those around which the size of a length changes.
func words(t *rapid.T) string {
	if flag(t) {
		n := one(t, 1, 31, 32, 255, 256)
		return rapid.StringOfN(rapid.RuneFrom([]rune("a~ \x00")), n, n, -1).Draw(t, "words") // of n bytes; rapid gives up on other runes
	}
	return text(t)
}

// drawValue sets v or leaves it zero. At depth 0 it sets no elements.
func drawValue(t *rapid.T, v reflect.Value, depth int) {
	if v.Kind() != reflect.Struct && !flag(t) {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(words(t))
	case reflect.Int, reflect.Int64:
		v.SetInt(number(t))
	case reflect.Uint64:
		v.SetUint(uint64(number(t)))
	case reflect.Float64:
		v.SetFloat(one(t, math.Copysign(0, -1), math.NaN(), math.Inf(1), rapid.Float64().Draw(t, "float")))
	case reflect.Struct:
		for i := range v.NumField() {
			kept := v.Type().Field(i).Tag.Get("msgpack") != "-"
			if kept && v.Field(i).CanSet() && flag(t) {
				drawValue(t, v.Field(i), depth-1)
			}
		}
	case reflect.Slice:
		drawSlice(t, v, depth)
	case reflect.Map:
		drawMap(t, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if depth > 0 {
			drawValue(t, v.Elem(), depth-1)
		}
	default:
		t.Fatalf("a type of the format has a %s", v.Type())
	}
}

func drawSlice(t *rapid.T, v reflect.Value, depth int) {
	n := 0
	switch {
	case v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte(words(t)))
		return
	case depth > 0:
		n = one(t, 0, 1, 2, 16)
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range min(n, 2) {
		drawValue(t, v.Index(i), depth-1)
	}
}

func drawMap(t *rapid.T, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for range one(t, 0, 1, 2, 17) {
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString(words(t))
		elem.SetString(words(t))
		v.SetMapIndex(key, elem)
	}
}
