package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestWordsOfSources compares the document's words with the constants of each type in the sources.
func TestWordsOfSources(t *testing.T) {
	t.Parallel()
	// Types whose words are not literals, or are those of another type.
	derived := []reflect.Type{typeOf[events.Override]()}
	known := make(map[string][]string)
	for _, dir := range []string{"../../events", "../api", "../plugin", "../../projector"} {
		for name, list := range constants(t, dir) {
			known[filepath.Base(dir)+"."+name] = list
		}
	}
	known["api.Right"] = []string{"approve", "command", "configure", "grant", "read", "write"} // three are those of grants
	checked := 0
	for typ, list := range words() {
		if strings.HasPrefix(typ.String(), "httpapi.") || slices.Contains(derived, typ) {
			continue
		}
		want := slices.Sorted(slices.Values(list))
		if got := known[typ.String()]; !slices.Equal(got, want) {
			t.Errorf("%s: the sources have %v, the document %v", typ, got, want)
		}
		checked++
	}
	if checked < 25 {
		t.Errorf("checked %d types, want all", checked)
	}
}

// TestNoBooleanSchemas checks that all schemas are objects: some client generators accept no others.
func TestNoBooleanSchemas(t *testing.T) {
	t.Parallel()
	data, err := document(routes())
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{`"items":true`, `":true,"`, `":true}`} {
		for rest := string(data); ; {
			at := strings.Index(rest, schema)
			if at < 0 {
				break
			}
			if around := rest[max(0, at-80) : at+len(schema)]; !strings.HasSuffix(rest[:at], `"required`) && !strings.HasSuffix(rest[:at], `"deprecated`) {
				t.Errorf("got a boolean schema: %s", around)
			}
			rest = rest[at+len(schema):]
		}
	}
}

// constants are the string constants of each type in a package, sorted, without the empty one.
func constants(t *testing.T, dir string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string][]string)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			typ, ok := spec.Type.(*ast.Ident)
			for _, v := range spec.Values {
				if lit, is := v.(*ast.BasicLit); ok && is && lit.Kind == token.STRING {
					if word, _ := strconv.Unquote(lit.Value); word != "" {
						list[typ.Name] = append(list[typ.Name], word)
					}
				}
			}
			return true
		})
	}
	for name := range list {
		slices.Sort(list[name])
	}
	return list
}
