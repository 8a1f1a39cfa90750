package events_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

var update = flag.Bool("update", false, "write the golden files of the current versions")

func goldenPath(kind events.Kind, v int64) string {
	return filepath.Join("testdata", "golden", fmt.Sprintf("%s.v%d.hex", kind, v))
}

func readGolden(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	runtest.NoError(t, err)
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// lines splits hex into lines of 32 bytes, for readable diffs.
func lines(data []byte) []byte {
	var out bytes.Buffer
	for len(data) > 0 {
		n := min(32, len(data))
		fmt.Fprintf(&out, "%x\n", data[:n])
		data = data[n:]
	}
	return out.Bytes()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if len(goldenPayloads[kind]) == 0 {
				t.Fatalf("%s has no literal in literals_test.go", kind)
			}
			want := goldenCommit(kind)
			checkGolden(t, goldenPath(kind, events.Version(kind)), want)
		})
	}
}

// Golden files of old versions stay and decode forever.
func TestGoldenFilesDecode(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.hex"))
	runtest.NoError(t, err)
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := events.Decode(readGolden(t, path))
			runtest.NoError(t, err)
			for _, e := range c.Events {
				if e.Payload == nil || !strings.HasPrefix(name, string(e.Kind)+".v") {
					t.Errorf("got kind %s, payload %T", e.Kind, e.Payload)
				}
			}
		})
	}
}

func TestGoldenSetsEveryField(t *testing.T) {
	t.Parallel()
	for kind, payloads := range goldenPayloads {
		set := make(map[string]bool)
		markAdded(set)
		for _, p := range payloads {
			markSet(set, reflect.ValueOf(p).Elem())
		}
		for _, s := range structsOf(payloads[0]) {
			for _, f := range encoded(s) {
				if name := s.Name() + "." + f.Name; !set[name] {
					t.Errorf("%s: the literal does not set %s", kind, name)
				}
			}
		}
	}
}

// markSet marks the fields, as Type.Field, that are not zero in v.
func markSet(set map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().Name()+"."+v.Type().Field(i).Name] = true
			}
			markSet(set, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			markSet(set, v.Index(i))
		}
	default:
	}
}

// encoded are the fields of a struct that are part of the format.
func encoded(s reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(s), func(f reflect.StructField) bool { return !f.IsExported() || len(f.Index) > 1 })
}

// structsOf lists the struct types in a payload, starting with its own.
func structsOf(p events.Payload) []reflect.Type {
	var list []reflect.Type
	seen := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Slice:
			walk(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			list = append(list, t)
			for i := range t.NumField() {
				walk(t.Field(i).Type)
			}
		default:
		}
	}
	walk(reflect.TypeOf(p).Elem())
	return list
}

// checkGolden compares a commit with the bytes of a golden file in both directions. With -update it writes the file.
func checkGolden(t *testing.T, path string, want *events.Commit) {
	t.Helper()
	data, err := events.Encode(want)
	runtest.NoError(t, err)
	if *update {
		runtest.NoError(t, os.WriteFile(path, lines(data), 0o644))
	}
	golden := readGolden(t, path)
	if !bytes.Equal(data, golden) {
		t.Errorf("encode: got\n%swant\n%s", lines(data), lines(golden))
	}
	got, err := events.Decode(golden)
	runtest.NoError(t, err)
	runtest.DeepEqual(t, "decode", got, want)
}
