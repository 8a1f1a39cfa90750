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

// referenceRows are the numbers of rows by section: as many as the reference has methods, and types
// that stand for one, minus those of section "Left out".
var referenceRows = map[string]int{"Session host": 45, "Protocol": 25, "Plugin session": 38, "Session": 28, "Plugin service": 1}

// TestReference checks REFERENCE.md against the source: every row names an existing symbol, every section is complete,
// and no row occurs twice.
func TestReference(t *testing.T) {
	t.Parallel()
	declared := make(map[string]bool)
	for prefix, dir := range map[string]string{"": ".", "api.": "../api", "events.": "../../events", "projector.": "../../projector", "session.": ".."} {
		declare(t, declared, prefix, dir)
	}
	table, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `(\\S+)` \\| `(\\S+)` \\|$")
	count, seen, section := make(map[string]int), make(map[string]bool), ""
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		count[section]++
		if id := section + " " + cells[1]; seen[id] {
			t.Errorf("%s: occurs twice", id)
		} else {
			seen[id] = true
		}
		if !declared[cells[2]] {
			t.Errorf("%s %s: got no %s in the source", section, cells[1], cells[2])
		}
	}
	for section, want := range referenceRows {
		if count[section] != want {
			t.Errorf("rows of %s: got %d, want %d", section, count[section], want)
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
