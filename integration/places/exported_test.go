package places

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLongExportedNamesHaveUsers finds the exported names that no program reaches: only tests use them, or nothing. The programs are those
// of cmd and examples, and the two of integration. testdata/exported.txt has the names that stay, each with its reason.
func TestLongExportedNamesHaveUsers(t *testing.T) {
	t.Parallel()
	kept := make(map[string]string)
	text, err := os.ReadFile("testdata/exported.txt")
	runtest.WantError(t, "names that stay", err, nil)
	for line := range strings.Lines(string(text)) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			kept[name] = reason
		}
	}
	list, err := packages.Load(&packages.Config{Context: t.Context(), Dir: "../..", Mode: packages.LoadSyntax}, "./...")
	runtest.WantError(t, "load", err, nil)
	for _, p := range list {
		for _, err := range p.Errors {
			t.Fatalf("load %s: %v", p.PkgPath, err)
		}
	}
	u := newUses(list)
	u.reach(u.roots)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if o := u.named[name]; o == nil || u.live[o] {
			t.Errorf("%s needs no line in testdata/exported.txt: it does not exist, or has a user", name)
		} else {
			u.roots = append(u.roots, o)
		}
	}
	u.reach(u.roots)
	for _, name := range u.dead() {
		t.Errorf("%s: no program uses it; delete it, or say in testdata/exported.txt who does", name)
	}
}

// uses says which declarations of the packages below integration use which.
type uses struct {
	edges    map[types.Object][]types.Object
	roots    []types.Object // what programs run, and all of the examples
	named    map[string]types.Object
	types    []*types.Named     // without interfaces
	inside   []*types.Interface // of this module
	outside  []*types.Interface
	bindings []binding
	live     map[types.Object]bool
}

// binding is a method that a type has for an interface. It is called where the method of the interface is, which is nil for an interface
// of another module: that is taken for called.
type binding struct {
	of           types.Object // the type
	method, with *types.Func
}

// byName are the methods that the packages errors, encoding/json, net/http and kong look for without an interface that has a name.
var byName = []string{"Is", "As", "Unwrap", "IsZero", "FlushError", "Run", "BeforeResolve"}

func newUses(list []*packages.Package) *uses {
	u := &uses{edges: make(map[types.Object][]types.Object), named: make(map[string]types.Object)}
	outside := map[*types.Package]bool{}
	for _, p := range list {
		path := strings.TrimPrefix(p.PkgPath, module)
		if forTests(path) {
			continue
		}
		for _, file := range p.Syntax {
			u.file(p, file, p.Name == "main" || strings.HasPrefix(path, "examples/"))
		}
		for _, imported := range p.Types.Imports() {
			outside[imported] = !strings.HasPrefix(imported.Path(), module)
		}
	}
	u.outside = []*types.Interface{types.Universe.Lookup("error").Type().Underlying().(*types.Interface)}
	for p, other := range outside {
		for _, name := range p.Scope().Names() {
			if i, ok := p.Scope().Lookup(name).Type().Underlying().(*types.Interface); ok && other && i.IsMethodSet() {
				u.outside = append(u.outside, i)
			}
		}
	}
	for _, named := range u.types {
		for m := range named.Methods() {
			if slices.Contains(byName, m.Name()) {
				u.bindings = append(u.bindings, binding{named.Obj(), m, nil})
			}
		}
		for _, i := range u.inside {
			u.bind(named, i, false)
		}
		for _, i := range u.outside {
			u.bind(named, i, true)
		}
	}
	return u
}

// forTests reports whether only tests import a package.
func forTests(path string) bool {
	if path == "integration/bench" || path == "integration/soak" { // programs
		return false
	}
	return strings.HasPrefix(path, "integration/") || path == "internal/runtest" || strings.HasSuffix(path, "test") || path == "examples/internal/child"
}

// file adds the declarations of a file.
func (u *uses) file(p *packages.Package, file *ast.File, root bool) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			u.declare(p, d.Name, d, root || d.Name.Name == "init")
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					u.declare(p, s.Name, s, root)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						u.declare(p, name, s, root || name.Name == "_")
					}
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if n, ok := n.(*ast.InterfaceType); ok {
			if i, ok := p.TypesInfo.TypeOf(n).(*types.Interface); ok && i.IsMethodSet() {
				u.inside = append(u.inside, i)
			}
		}
		return true
	})
}

// declare adds one declaration, and what it uses.
func (u *uses) declare(p *packages.Package, name *ast.Ident, decl ast.Node, root bool) {
	o := p.TypesInfo.Defs[name]
	if root {
		u.roots = append(u.roots, o)
	}
	u.named[nameOf(o)] = o
	if named, ok := o.Type().(*types.Named); ok && named.Obj() == o {
		if i, ok := named.Underlying().(*types.Interface); ok {
			for m := range i.ExplicitMethods() {
				u.named[nameOf(o)+"."+m.Name()] = m
			}
		} else {
			u.types = append(u.types, named)
		}
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if used := p.TypesInfo.Uses[id]; used != nil && used.Pkg() != nil && strings.HasPrefix(used.Pkg().Path(), module) {
				u.edges[o] = append(u.edges[o], origin(used))
			}
		}
		return true
	})
}

// origin is the declaration of what an instance of a generic one uses.
func origin(o types.Object) types.Object {
	if fn, ok := o.(*types.Func); ok {
		return fn.Origin()
	}
	return o
}

// nameOf is a name with its package, and the type of a method.
func nameOf(o types.Object) string {
	name := o.Name()
	if fn, ok := o.(*types.Func); ok && fn.Signature().Recv() != nil {
		of := fn.Signature().Recv().Type()
		if p, ok := of.(*types.Pointer); ok {
			of = p.Elem()
		}
		name = of.(*types.Named).Obj().Name() + "." + name
	}
	return strings.TrimPrefix(o.Pkg().Path(), module) + "." + name
}

// bind adds the methods that a type has for an interface.
func (u *uses) bind(named *types.Named, i *types.Interface, outside bool) {
	if !types.Implements(types.NewPointer(named), i) {
		return
	}
	for m := range i.Methods() {
		have, _, _ := types.LookupFieldOrMethod(named, true, m.Pkg(), m.Name())
		b := binding{of: named.Obj(), method: have.(*types.Func).Origin()}
		if !outside {
			b.with = m.Origin()
		}
		u.bindings = append(u.bindings, b)
	}
}

// reach sets what is live from some objects on.
func (u *uses) reach(from []types.Object) {
	u.live = make(map[types.Object]bool)
	for next := slices.Clone(from); len(next) > 0; {
		for len(next) > 0 {
			o := next[len(next)-1]
			next = next[:len(next)-1]
			if !u.live[o] {
				u.live[o] = true
				next = append(next, u.edges[o]...)
			}
		}
		for _, b := range u.bindings {
			if u.live[b.of] && !u.live[b.method] && (b.with == nil || u.live[b.with]) {
				next = append(next, b.method)
			}
		}
	}
}

// dead are the exported names that are not live. A type stands for its methods, and the method of an interface for those of the types
// that have it.
func (u *uses) dead() (list []string) {
	stands := make(map[types.Object]bool)
	for _, b := range u.bindings {
		if b.with != nil && !u.live[b.with] {
			stands[b.method] = true
		}
	}
	for name, o := range u.named {
		of := u.named[name[:strings.LastIndex(name, ".")]] // of a method
		if !u.live[o] && o.Exported() && !stands[o] && (of == nil || u.live[of]) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// TestExportedNamesWithoutUsers shows which names are found.
func TestExportedNamesWithoutUsers(t *testing.T) {
	t.Parallel()
	const source = `package main
import "io"
func main() { _ = New(); run(Loud{}); var w io.Writer = Sink{}; _ = w }
type (
	Thing struct{}
	Speaker interface { Speak() string; Sing() string }
	Loud struct{}
	Sink struct{}
	Alone struct{}
)
func New() *Thing { return nil }
func (*Thing) Used() { Recursive() }
func Recursive() { Recursive(); Chain() }
func Chain() {}
func (Loud) Speak() string { return "" }
func (Loud) Sing() string { return "" }
func run(s Speaker) { s.Speak() }
func (Sink) Write(b []byte) (int, error) { return len(b), nil }
func (a Alone) Self() Alone { return a }
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", source, 0)
	runtest.WantError(t, "parse", err, nil)
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
	checked, err := (&types.Config{Importer: importer.Default()}).Check(module+"x", fset, []*ast.File{file}, info)
	runtest.WantError(t, "check", err, nil)
	u := newUses([]*packages.Package{{PkgPath: module + "x", Name: "x", Syntax: []*ast.File{file}, Types: checked, TypesInfo: info}})
	u.reach([]types.Object{u.named["x.main"]})
	runtest.EqualLists(t, "without a user", u.dead(), []string{"x.Alone", "x.Chain", "x.Recursive", "x.Speaker.Sing", "x.Thing.Used"})
}
