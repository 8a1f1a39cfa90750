package events

import (
	"reflect"
	"testing"
)

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
