package workers_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// TestNodeHasOneHost looks at everything that a node reaches: one host and one cache of states serve its requests, turns and tasks.
func TestNodeHasOneHost(t *testing.T) {
	t.Parallel()
	node, err := workers.NewNode(workers.Config{Bus: bustest.Start(t)})
	runtest.NoError(t, err)
	reached := reach{seen: make(map[place]bool), paths: make(map[string]map[uintptr]string)}
	reached.walk(reflect.ValueOf(node), "node")
	for _, want := range []string{"session.Host", "states.Cache"} {
		paths := slices.Sorted(maps.Values(reached.paths[want]))
		if len(paths) != 1 {
			t.Errorf("%s: got %d of them, at %v, want one", want, len(paths), paths)
		}
	}
	if len(reached.paths["task.Service"]) != 1 || len(reached.paths["run.Pool"]) != 1 {
		t.Error("the walk did not reach the tasks and the turns of the node")
	}
}

// reach has the structs of this module that a value reaches, without those of package bus, which has no part of a node.
type reach struct {
	seen  map[place]bool
	paths map[string]map[uintptr]string // by type, then by address
}

type place struct {
	at uintptr
	of reflect.Type
}

func (r *reach) walk(v reflect.Value, path string) {
	switch v.Kind() { //nolint:exhaustive // values of other kinds reach nothing
	case reflect.Pointer:
		if p := (place{v.Pointer(), v.Type()}); !v.IsNil() && !r.seen[p] {
			r.seen[p] = true
			r.note(v, path)
			r.walk(v.Elem(), path)
		}
	case reflect.Interface:
		if !v.IsNil() {
			r.walk(v.Elem(), path)
		}
	case reflect.Struct:
		if of := v.Type().PkgPath(); of != "" && (!strings.HasPrefix(of, "github.com/lash-go/lash/") || strings.HasPrefix(of, "github.com/lash-go/lash/bus")) {
			return
		}
		for i := range v.NumField() {
			field := v.Field(i)
			name := path + "." + v.Type().Field(i).Name
			if field.Kind() == reflect.Struct && field.CanAddr() {
				r.note(field.Addr(), name)
			}
			r.walk(field, name)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			r.walk(v.MapIndex(key), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			r.walk(v.Index(i), path)
		}
	}
}

// note counts a struct by its address.
func (r *reach) note(pointer reflect.Value, path string) {
	of := pointer.Type().Elem().String()
	if r.paths[of] == nil {
		r.paths[of] = make(map[uintptr]string)
	}
	if _, known := r.paths[of][pointer.Pointer()]; !known {
		r.paths[of][pointer.Pointer()] = path
	}
}
