package events

import (
	"errors"
	"reflect"
	"testing"
)

// closedV1 is an invented older version of session.closed.
type closedV1 struct {
	Why string `msgpack:"w"`
}

func TestUpcast(t *testing.T) {
	t.Parallel()
	errStep := errors.New("step")
	rename := func(body []byte) ([]byte, error) {
		var old closedV1
		if err := DecodePayload(body, &old); err != nil {
			return nil, err
		}
		return EncodePayload(&SessionClosed{Reason: old.Why})
	}
	louder := func(body []byte) ([]byte, error) {
		var p SessionClosed
		if err := DecodePayload(body, &p); err != nil {
			return nil, err
		}
		p.Reason += "!"
		return EncodePayload(&p)
	}
	old, err := EncodePayload(&closedV1{Why: "done"})
	if err != nil {
		t.Fatal(err)
	}
	current, err := EncodePayload(&SessionClosed{Reason: "done"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		body     []byte
		from, to int64
		steps    map[int64]upcaster
		want     string
		err      error
	}{
		{"current", current, 1, 1, nil, "done", nil},
		{"one_step", old, 1, 2, map[int64]upcaster{1: rename}, "done", nil},
		{"two_steps", old, 1, 3, map[int64]upcaster{1: rename, 2: louder}, "done!", nil},
		{"from_the_middle", current, 2, 3, map[int64]upcaster{1: rename, 2: louder}, "done!", nil},
		{"no_step", old, 1, 3, map[int64]upcaster{1: rename}, "", ErrMalformed},
		{"failing_step", old, 1, 2, map[int64]upcaster{1: func([]byte) ([]byte, error) { return nil, errStep }}, "", errStep},
		{"garbage", []byte{0xc1}, 1, 2, map[int64]upcaster{1: rename}, "", ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			body, err := upcast(tc.body, tc.from, tc.to, tc.steps)
			if !errors.Is(err, tc.err) {
				t.Fatalf("got error %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			var got SessionClosed
			if err := DecodePayload(body, &got); err != nil || got.Reason != tc.want {
				t.Errorf("got %+v, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// Every old version of every kind has an upcaster, and there are no others.
func TestUpcastersComplete(t *testing.T) {
	t.Parallel()
	for kind, info := range kinds {
		for v := int64(1); v < info.v; v++ {
			if upcasters[kind][v] == nil {
				t.Errorf("%s has no upcaster from version %d", kind, v)
			}
		}
	}
	for kind, steps := range upcasters {
		for v := range steps {
			if v < 1 || v >= kinds[kind].v {
				t.Errorf("%s has an upcaster from version %d, the current one is %d", kind, v, kinds[kind].v)
			}
		}
	}
}

func TestKindsAreWellFormed(t *testing.T) {
	t.Parallel()
	for kind, info := range kinds {
		if !kind.wellFormed() || KindOf(info.new()) != kind || info.v < 1 {
			t.Errorf("%s: got version %d of %s", kind, info.v, KindOf(info.new()))
		}
		for tag, n := range tags(reflect.TypeOf(info.new()).Elem(), make(map[string]int)) {
			if n > 1 {
				t.Errorf("%s: tag %s occurs twice", kind, tag)
			}
		}
	}
}

// tags counts how often Type.tag occurs in t and its structs.
func tags(t reflect.Type, count map[string]int) map[string]int {
	switch t.Kind() {
	case reflect.Slice:
		return tags(t.Elem(), count)
	case reflect.Struct:
		own := make(map[string]int)
		for i := range t.NumField() {
			own[t.Name()+"."+t.Field(i).Tag.Get("msgpack")]++
			tags(t.Field(i).Type, count)
		}
		for tag, n := range own {
			count[tag] = max(count[tag], n)
		}
	default:
	}
	return count
}
