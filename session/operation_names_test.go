package session_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestRowsAreNamedForMethods finds a method of the host, or of the service, with the name of each row's variable: one
// operation has one name. Two rows are forms of another one that only HTTP has.
func TestRowsAreNamedForMethods(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "operation/table.go", nil, 0)
	runtest.NoError(t, err)
	host, service := reflect.TypeFor[operation.Host](), reflect.TypeFor[api.Service]()
	onlyHTTP := map[string]string{"Turn": "one of Turns", "StreamCompletion": "Complete as a stream", "Snapshot": "State for a request"}
	rows := 0
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				_, ofHost := host.MethodByName(name.Name)
				_, ofService := service.MethodByName(name.Name)
				if rows++; !ofHost && !ofService && onlyHTTP[name.Name] == "" {
					t.Errorf("row %s: got no method of that name", name.Name)
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("got %d rows, want all of the table", rows)
	}
}
