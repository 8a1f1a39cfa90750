package events_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

// sections splits FORMAT.md into its third-level sections, by title.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	runtest.NoError(t, err)
	list := make(map[string]string)
	for part := range strings.SplitSeq("\n"+string(text), "\n### ") {
		title, body, _ := strings.Cut(part, "\n")
		if _, ok := list[title]; ok {
			t.Errorf("FORMAT.md has two sections %q", title)
		}
		body, _, _ = strings.Cut(body, "\n## ")
		list[title] = body
	}
	return list
}

// Every kind is complete. The test names missing parts.
func TestKindsAreComplete(t *testing.T) {
	t.Parallel()
	format := sections(t)
	for _, kind := range events.Kinds() {
		v := events.Version(kind)
		title := strings.TrimSuffix(filepath.Base(goldenPath(kind, v)), ".hex")
		title = strings.Replace(title, ".v", " v", 1)
		body, ok := format[title]
		if !ok {
			t.Errorf("FORMAT.md has no section %q", title)
		}
		if _, err := os.Stat(goldenPath(kind, v)); err != nil {
			t.Errorf("%s version %d has no golden file: set its literal in literals_test.go and run with -update", kind, v)
		}
		if eventstest.Payload(kind) == nil {
			t.Errorf("%s has no generator in eventstest", kind)
		}
		if len(goldenPayloads[kind]) == 0 {
			t.Errorf("%s has no literal in literals_test.go", kind)
			continue
		}
		types := structsOf(goldenPayloads[kind][0])
		wantRows(t, title, body, types[0])
		for _, s := range types[1:] {
			wantRows(t, titleOf(s), format[titleOf(s)], s)
		}
	}
}

// Each golden file has a section.
func TestGoldenFilesAreDescribed(t *testing.T) {
	t.Parallel()
	format := sections(t)
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.hex"))
	runtest.NoError(t, err)
	for _, path := range paths {
		title := strings.Replace(strings.TrimSuffix(filepath.Base(path), ".hex"), ".v", " v", 1)
		if _, ok := format[title]; !ok {
			t.Errorf("FORMAT.md has no section %q, but %s exists", title, path)
		}
	}
}

// wantRows checks that the section has exactly one row for each field of s, with tag, name and type.
func wantRows(t *testing.T, title, body string, s reflect.Type) {
	t.Helper()
	for _, f := range encoded(s) {
		tag, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		kind := wireType(f.Type)
		if option == "omitempty" {
			kind += ", optional"
		}
		row := "\n| `" + tag + "` | " + f.Name + " | " + kind + " | "
		if !strings.Contains(body, row) {
			t.Errorf("FORMAT.md, section %q: no row %q", title, strings.TrimSpace(row))
		}
	}
	if got := strings.Count(body, "\n| `"); got != len(encoded(s)) {
		t.Errorf("FORMAT.md, section %q: got %d rows, want %d", title, got, len(encoded(s)))
	}
}

// titleOf is the title of a struct's section: its name, or kind and version of a payload.
func titleOf(t reflect.Type) string {
	if p, ok := reflect.New(t).Interface().(events.Payload); ok && events.KindOf(p) != "" {
		return fmt.Sprintf("%s v%d", events.KindOf(p), events.Version(events.KindOf(p)))
	}
	return t.Name()
}

// anchor converts a title to the link of its section.
var anchor = strings.NewReplacer(".", "", " ", "-")

// wireType is the name of a type in FORMAT.md.
func wireType(t reflect.Type) string {
	name := ""
	if t.PkgPath() != "" {
		name = " (" + t.Name() + ")"
	}
	switch t.Kind() {
	case reflect.String:
		return "text" + name
	case reflect.Int64:
		return "int" + name
	case reflect.Uint64:
		return "uint" + name
	case reflect.Struct:
		title := titleOf(t)
		return "[" + title + "](#" + anchor.Replace(strings.ToLower(title)) + ")"
	case reflect.Map:
		return "map of " + wireType(t.Key()) + " to " + wireType(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "array of " + wireType(t.Elem())
	default:
		return t.Kind().String()
	}
}

// Payloads contain only types that every language and version decodes alike.
func TestFieldTypes(t *testing.T) {
	t.Parallel()
	for kind, payloads := range goldenPayloads {
		for _, s := range structsOf(payloads[0]) {
			for _, f := range encoded(s) {
				if tag := f.Tag.Get("msgpack"); tag == "" || strings.HasPrefix(tag, ",") {
					t.Errorf("%s: %s.%s has no tag", kind, s.Name(), f.Name)
				}
				if !allowed(f.Type) {
					t.Errorf("%s: %s.%s has type %s, which the format does not allow", kind, s.Name(), f.Name, f.Type)
				}
			}
		}
	}
}

func allowed(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Struct:
		return t.PkgPath() != "time"
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8 || allowed(t.Elem())
	case reflect.Map:
		return t == reflect.TypeFor[map[string]string]()
	default:
		return false
	}
}
