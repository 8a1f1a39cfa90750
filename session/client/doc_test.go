package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/operation"
)

// TestPromotedMethodsAreListed reads the documentation of the client: its list has the methods that the client gets
// from the embedded type, and no others.
func TestPromotedMethodsAreListed(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "client.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	own := make(map[string]bool)
	for _, name := range []string{"client.go", "read.go"} {
		for _, method := range methodsIn(t, name) {
			own[method] = true
		}
	}
	var got, want []string
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && strings.HasPrefix(g.Doc.Text(), "Client is ") {
			_, list, _ := strings.Cut(g.Doc.Text(), ":\n\n")
			got = strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
		}
	}
	remote := reflect.TypeFor[operation.Remote]()
	for m := range reflect.TypeFor[*client.Client]().Methods() {
		if _, promoted := remote.MethodByName(m.Name); promoted && !own[m.Name] {
			want = append(want, m.Name)
		}
	}
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("list: got %q, want %q", got, want)
	}
}

// methodsIn are the methods that a file declares.
func methodsIn(t *testing.T, name string) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			list = append(list, f.Name.Name)
		}
	}
	return list
}
