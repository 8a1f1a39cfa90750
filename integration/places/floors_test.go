package places

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// source is the code of a package without its tests.
func source(t *testing.T, pkg string) []*ast.File {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: got no files, %v", pkg, err)
	}
	var list []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		runtest.NoError(t, err)
		list = append(list, f)
	}
	return list
}

func statements(files []*ast.File) (n int) {
	for _, f := range files {
		ast.Inspect(f, func(node ast.Node) bool {
			if _, block := node.(*ast.BlockStmt); !block {
				if _, ok := node.(ast.Stmt); ok {
					n++
				}
			}
			return true
		})
	}
	return n
}

func architecture(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	runtest.NoError(t, err)
	return string(text)
}

// TestFloorsKeepTheirSize compares the statements of each floor with what ARCHITECTURE.md allows it.
func TestFloorsKeepTheirSize(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile(`(?m)^\| ([a-z ]+) \|[^|]*\| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(architecture(t), -1)
	var named []string
	for _, row := range rows {
		named = append(named, row[1])
	}
	for _, f := range floors {
		n := 0
		for pkg := range strings.FieldsSeq(f.packages) {
			if !strings.HasSuffix(pkg, "test") && !strings.HasPrefix(pkg, "examples/") {
				n += statements(source(t, pkg))
			}
		}
		i := slices.Index(named, f.name)
		switch {
		case n == 0:
		case i < 0:
			t.Errorf("the floor %q has %d statements, and no row in ARCHITECTURE.md", f.name, n)
		default:
			if most, err := strconv.Atoi(rows[i][2]); err != nil || n > most {
				t.Errorf("%s: got %d statements, want at most %s (%v)", f.name, n, rows[i][2], err)
			}
		}
	}
}

// TestWalksAreCalls compares the walks of ARCHITECTURE.md with the code: each function uses the next one by name. One that begins a line
// with an asterisk is reached through a table or an interface.
func TestWalksAreCalls(t *testing.T) {
	t.Parallel()
	walks := regexp.MustCompile("(?s)```walk\n(.*?)```").FindAllStringSubmatch(architecture(t), -1)
	if len(walks) != 3 {
		t.Fatalf("got %d walks, want 3: of a request, a tool call and a watcher's event", len(walks))
	}
	for _, walk := range walks {
		var before *ast.FuncDecl
		lines := strings.Split(strings.TrimSpace(walk[1]), "\n")
		if len(lines) > 22 {
			t.Errorf("a walk has %d functions, want at most 22", len(lines))
		}
		for _, line := range lines {
			through := strings.HasPrefix(line, "*")
			name := strings.Fields(strings.TrimPrefix(line, "*"))[0]
			f := function(t, name)
			if f == nil {
				t.Errorf("%s: there is no such function", name)
				continue
			}
			if before != nil && !through && !mentions(before, f.Name.Name) {
				t.Errorf("%s does not use %s", before.Name.Name, name)
			}
			before = f
		}
	}
}

// function finds path/to/package.Function, or path/to/package.Type.Method.
func function(t *testing.T, name string) *ast.FuncDecl {
	t.Helper()
	dir, last := filepath.Split(name)
	parts := strings.Split(last, ".")
	for _, f := range source(t, dir+parts[0]) {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == parts[len(parts)-1] && receiver(d) == strings.Join(parts[1:len(parts)-1], ".") {
				return d
			}
		}
	}
	return nil
}

func receiver(d *ast.FuncDecl) (name string) {
	if d.Recv != nil {
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name
			}
			return true
		})
	}
	return name
}

func mentions(f *ast.FuncDecl, name string) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
