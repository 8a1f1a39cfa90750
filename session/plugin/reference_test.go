package plugin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// row is a row of a table of REFERENCE.md. The rows of types have neither a place nor a test.
var row = regexp.MustCompile("^\\| `([^`]+)` \\| `([^`]+)` \\|(?: (.+) \\| `([^`]+)` \\|)?$")

// TestReference compares REFERENCE.md with the methods of the reference, and with the source: each method has one row in the
// table of its section, or a reason; the symbols and tests that rows name exist, and operations are where their rows say.
func TestReference(t *testing.T) {
	t.Parallel()
	declared := make(map[string]bool)
	for _, dir := range []string{".", "wire", "../api", "../../events", "../../projector", ".."} {
		prefix := ""
		if dir != "." {
			abs, err := filepath.Abs(dir)
			if err != nil {
				t.Fatal(err)
			}
			prefix = filepath.Base(abs) + "."
		}
		declare(t, declared, prefix, dir)
	}
	methods, section := make(map[string]string), ""
	for line := range strings.Lines(read(t, "testdata/reference.txt")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "# ") {
			section = line[2:]
		} else {
			methods[line] = section
		}
	}
	left, heres, alone := regexp.MustCompile("^- `([^`]+)`: "), make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(read(t, "REFERENCE.md")) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		if section == "Without a user here" && strings.HasPrefix(line, "- ") {
			names, _, _ := strings.Cut(line, ": ")
			for quoted := range strings.SplitSeq(names[2:], ", ") {
				alone[strings.Trim(quoted, "`")] = true
			}
			continue
		}
		name := ""
		if out := left.FindStringSubmatch(line); out != nil {
			name = out[1]
		} else if cells := row.FindStringSubmatch(line); cells == nil {
			continue
		} else if name = cells[1]; !declared[cells[2]] {
			t.Errorf("%s: got no %s in the source", name, cells[2])
		} else if cells[4] == "" {
			continue // a type
		} else {
			heres[cells[2]] = true
			checkWhere(t, name, cells[3])
			checkNamedTest(t, name, cells[4])
		}
		if of := methods[name]; of != section && (of == "" || section != "Left out") {
			t.Errorf("%s of %s: got section %q, and every method has one row", name, section, of)
		}
		delete(methods, name)
	}
	for name, section := range methods {
		t.Errorf("%s of %s: has no row, and is not left out", name, section)
	}
	for line := range strings.Lines(read(t, "../../integration/places/testdata/exported.txt")) { // what no program uses
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "session/plugin."), ": ")
		if ok && heres[name] && !alone[name] {
			t.Errorf("%s has no user here, and no reason", name)
		}
		delete(alone, name)
	}
	for name := range alone {
		t.Errorf("%s has a user here, or is no method of a row", name)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkWhere checks a list of interfaces: that of the operations, if the cell names any, or one with the reason for Go alone, or with
// what programs have instead.
func checkWhere(t *testing.T, name, cell string) {
	t.Helper()
	got, what, ok := strings.Cut(cell, ": ")
	if !ok {
		t.Errorf("%s: got %q, want interfaces, and an operation or a reason", name, cell)
	}
	if point := regexp.MustCompile("^point `(.+)`$").FindStringSubmatch(what); point != nil && wire.KindOf(point[1]) == wire.PointUnknown {
		t.Errorf("%s: got no point %s", name, point[1])
	}
	if !strings.HasPrefix(what, "`") {
		if strings.Contains(got, "NATS") || strings.Contains(got, "HTTP") {
			t.Errorf("%s: got %q, want an operation", name, cell)
		}
		return
	}
	for id := range strings.SplitSeq(what, ", ") {
		at := slices.IndexFunc(operation.All(), func(r *operation.Row) bool { return "`"+r.ID+"`" == id })
		if at < 0 {
			t.Errorf("%s: got no operation %s", name, id)
		} else if want := whereIs(operation.All()[at]); got != want {
			t.Errorf("%s, %s: got %s, want %s", name, id, got, want)
		}
	}
}

// whereIs is where an operation is. Clients over NATS read the history by themselves.
func whereIs(r *operation.Row) string {
	list := []string{"Go"}
	if r.Name != "" || r.Repeat == operation.ReadOnly {
		list = append(list, "NATS")
	}
	if r.Route != "" {
		list = append(list, "HTTP")
	}
	if _, path := r.HTTP(); strings.Contains(path, "{session}") || r.ID == operation.Create.ID {
		list = append(list, "programs")
	}
	return strings.Join(list, ", ")
}

// checkNamedTest checks that a test exists: PACKAGE.TEST, with a case or without, or the id of a case of the catalogue.
func checkNamedTest(t *testing.T, name, test string) {
	t.Helper()
	dir, want := "integration/catalogue", `"`+test+`", "`
	if at := strings.LastIndex(test, "."); at >= 0 {
		fn, _, _ := strings.Cut(test[at+1:], "/")
		dir, want = test[:at], "\nfunc "+fn+"(t *testing.T)"
	}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil || !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(read(t, f), want) }) {
		t.Errorf("%s: got no test %s", name, test)
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
