package plugin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rows of the reference interfaces, by document: as many as the
// reference has methods, and types that stand for one, but for those that are left out.
var rows = map[string]int{"000": 45, "001": 25, "002": 38, "003": 27}

// TestReference holds the table of the package documentation against the
// source: every row names something that exists, every document has all its rows, none stands twice.
func TestReference(t *testing.T) {
	t.Parallel()
	declared := make(map[string]bool)
	for prefix, dir := range map[string]string{"": ".", "api.": "../api", "events.": "../../events", "projector.": "../../projector", "session.": ".."} {
		declare(t, declared, prefix, dir)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"002 PluginSession.triggers", "001 ProtocolBeforeLlmCallContext.process_scope"} {
		if !strings.Contains(string(doc), "//   - "+gone+", ") {
			t.Errorf("%s: got no reason why it is left out", gone)
		}
	}
	count, seen := make(map[string]int), make(map[string]bool)
	for _, row := range regexp.MustCompile(`(?m)^//\t(00[0-3]) (\S+)\s+(\S+)$`).FindAllStringSubmatch(string(doc), -1) {
		count[row[1]]++
		if seen[row[1]+row[2]] {
			t.Errorf("%s %s: stands twice", row[1], row[2])
		}
		seen[row[1]+row[2]] = true
		if !declared[row[3]] {
			t.Errorf("%s %s: got no %s in the source", row[1], row[2], row[3])
		}
	}
	for doc, want := range rows {
		if count[doc] != want {
			t.Errorf("rows of %s: got %d, want %d", doc, count[doc], want)
		}
	}
}

// declare adds the types, their methods and fields, and the functions and variables of a package.
func declare(t *testing.T, declared map[string]bool, prefix, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, symbol := range symbols(d) {
				declared[prefix+symbol] = true
			}
		}
	}
}

func symbols(d ast.Decl) []string {
	if fn, ok := d.(*ast.FuncDecl); ok {
		if fn.Recv == nil {
			return []string{fn.Name.Name}
		}
		return []string{receiver(fn.Recv.List[0].Type) + "." + fn.Name.Name}
	}
	var list []string
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				list = append(list, name.Name)
			}
		case *ast.TypeSpec:
			list = append(list, s.Name.Name)
			for _, member := range members(s.Type) {
				list = append(list, s.Name.Name+"."+member)
			}
		}
	}
	return list
}

func members(t ast.Expr) []string {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return nil
	}
	var list []string
	for _, f := range fields.List {
		for _, name := range f.Names {
			list = append(list, name.Name)
		}
	}
	return list
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
