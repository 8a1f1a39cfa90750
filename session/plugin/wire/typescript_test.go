package wire_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

var (
	interfaceOf = regexp.MustCompile(`(?s)export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}`)
	fieldOf     = regexp.MustCompile(`(?m)^  (\w+)(\??): `)
)

// TestTypeScriptTypes compares the messages of the SDK of TypeScript with the types: names, order, and which are optional.
func TestTypeScriptTypes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "sdk", "typescript", "wire.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string][]field)
	for _, m := range interfaceOf.FindAllStringSubmatch(string(text), -1) {
		fields := slices.Clone(declared[m[2]]) // of the interface that it extends
		for _, f := range fieldOf.FindAllStringSubmatch(m[3], -1) {
			fields = append(fields, field{name: f[1], optional: f[2] != ""})
		}
		declared[m[1]] = fields
	}
	for _, m := range messages {
		want := fieldsOf(reflect.TypeOf(m))
		for i := range want {
			want[i].kind = ""
		}
		if name := reflect.TypeOf(m).Name(); !slices.Equal(declared[name], want) {
			t.Errorf("%s:\n got %v\nwant %v", name, declared[name], want)
		}
	}
}
