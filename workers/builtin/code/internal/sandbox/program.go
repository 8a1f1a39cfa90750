package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const codeFile = "code"

// Names of functions that only the prologue calls.
const (
	guardRestore = "restore" + mark
	guardVar     = "variable" + mark
)

// program is the code and the state of earlier runs as one file: it creates saved functions from their source,
// assigns the saved variables,
// and then runs the code. Old and new functions therefore have the same globals.
type program struct {
	sources map[string]wireFunction // by file, line and column of the function
	texts   map[string][]string     // lines by file
	labels  map[string]string       // names of saved functions by file
	used    map[string]bool         // names in saved functions, defined or not
}

// parse parses one source and stores the sources of its functions.
func (p *program) parse(file, text string) (*syntax.File, error) {
	p.texts[file] = strings.Split(text, "\n")
	options := syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}
	f, err := options.Parse(file, text, 0)
	if err == nil {
		p.walk(file, f)
	}
	return f, err
}

// factory makes the factory of a saved function. Its parameters are the variables of the closure and the defaults, its
// result the function.
func (p *program) factory(i int, fn *wireFunction) (*syntax.DefStmt, error) {
	file := fmt.Sprintf("saved%d", i)
	p.labels[file] = fn.Name
	text := fn.Indent + fn.Source
	switch {
	case fn.Lambda:
		text = "(" + fn.Source + "\n)"
	case fn.Indent != "":
		text = "if True:\n" + text
	}
	f, err := p.parse(file, text)
	if err != nil {
		return nil, err
	}
	if len(f.Stmts) != 1 {
		return nil, errors.New("not one function")
	}
	var found syntax.Node = f.Stmts[0]
	switch outer := found.(type) {
	case *syntax.IfStmt:
		found = outer.True[0]
	case *syntax.ExprStmt:
		if paren, ok := outer.X.(*syntax.ParenExpr); ok {
			found = paren.X
		}
	}
	pos := syntax.MakePosition(&file, 1, 1)
	name := func(s string) *syntax.Ident { return &syntax.Ident{NamePos: pos, Name: s} }
	factory := &syntax.DefStmt{Def: pos, Name: name(fmt.Sprintf("make%s%d", mark, i)), Lparen: pos, Rparen: pos}
	var params []syntax.Expr
	switch n := found.(type) {
	case *syntax.DefStmt:
		// Not under its own name: that one stays a global for its body.
		n.Name.Name += mark
		params = n.Params
		factory.Body = []syntax.Stmt{n, &syntax.ReturnStmt{Return: pos, Result: name(n.Name.Name)}}
	case *syntax.LambdaExpr:
		params = n.Params
		factory.Body = []syntax.Stmt{&syntax.ReturnStmt{Return: pos, Result: n}}
	default:
		return nil, errors.New("not a function")
	}
	for _, b := range fn.Free {
		factory.Params = append(factory.Params, name(b.Name))
	}
	for j, b := range fn.Defaults {
		for _, param := range params {
			def, ok := param.(*syntax.BinaryExpr)
			if ok && def.X.(*syntax.Ident).Name == b.Name {
				def.Y = name(fmt.Sprintf("default%s%d", mark, j))
			}
		}
		factory.Params = append(factory.Params, name(fmt.Sprintf("default%s%d", mark, j)))
	}
	return factory, nil
}

// compile joins the parts and compiles them. An undefined name is an error in the code, but in a saved function only when
// it is used.
func (r *run) compile(code string, env starlark.StringDict) (*starlark.Program, error) {
	p := &r.program
	p.sources, p.texts = make(map[string]wireFunction), make(map[string][]string)
	p.labels, p.used = make(map[string]string), make(map[string]bool)
	f, err := p.parse(codeFile, code)
	if err != nil {
		return nil, err
	}
	saved := r.state.wire.Vars
	if _, err := starlark.FileProgram(f, func(name string) bool { return env.Has(name) || saved[name] != nil }); err != nil {
		return nil, err
	}
	if f, err = p.parse(codeFile, code); err != nil { // the compilation has changed the tree
		return nil, err
	}
	file := codeFile // the file of the first statement counts for all at the top level
	pos := syntax.MakePosition(&file, 0, 0)
	name := func(s string) *syntax.Ident { return &syntax.Ident{NamePos: pos, Name: s} }
	call := func(fn string, args ...syntax.Expr) *syntax.CallExpr {
		return &syntax.CallExpr{Fn: name(fn), Lparen: pos, Args: args, Rparen: pos}
	}
	prologue := []syntax.Stmt{&syntax.BranchStmt{Token: syntax.PASS, TokenPos: pos}}
	var factories []syntax.Expr
	for i, node := range r.state.wire.Heap {
		if node.Fn == nil {
			continue
		}
		factory, err := p.factory(i, node.Fn)
		if err != nil {
			return nil, r.state.fail(fmt.Errorf("function %s: %w", node.Fn.Name, err))
		}
		prologue = append(prologue, factory)
		factories = append(factories, name(factory.Name.Name))
	}
	if len(saved) > 0 {
		prologue = append(prologue, &syntax.ExprStmt{X: call(guardRestore, factories...)})
	}
	for i, variable := range r.state.names() {
		if !isIdentifier(variable) {
			return nil, r.state.fail(fmt.Errorf("%q is not a name", variable))
		}
		value := call(guardVar, &syntax.Literal{Token: syntax.INT, TokenPos: pos, Value: int64(i)})
		prologue = append(prologue, &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: name(variable), RHS: value})
	}
	f.Stmts = append(prologue, f.Stmts...)
	return starlark.FileProgram(f, func(name string) bool { return env.Has(name) || p.used[name] })
}

// fail notes that the state is broken.
func (d *decoder) fail(err error) error {
	d.broken = err
	return err
}

// restore creates the functions and fills the containers. The prologue calls it.
func (r *run) restore(thread *starlark.Thread, _ *starlark.Builtin, factories starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	d := r.state
	making := make(map[int]starlark.Value) // factories that have not made their function
	for i, node := range d.wire.Heap {
		if node.Fn != nil {
			making[i], factories = factories[0], factories[1:]
		}
	}
	var build func(i int) error
	build = func(i int) error {
		factory := making[i]
		if factory == nil {
			return errors.New("a function needs itself")
		}
		delete(making, i)
		var args starlark.Tuple
		fn := d.wire.Heap[i].Fn
		for _, b := range slices.Concat(fn.Free, fn.Defaults) {
			v, ref, err := d.value(b.Value)
			if errors.Is(err, errFunction) {
				err = build(ref)
				v = d.heap[ref]
			}
			if err != nil {
				return err
			}
			args = append(args, v)
		}
		v, err := starlark.Call(thread, factory, args, nil)
		d.heap[i] = v
		return err
	}
	for i, node := range d.wire.Heap {
		if node.Fn != nil && d.heap[i] == nil {
			if err := build(i); err != nil && thread.Steps >= r.Limits.Steps {
				return nil, err
			} else if err != nil {
				return nil, d.fail(err)
			}
		}
	}
	if err := d.fill(); err != nil {
		return nil, d.fail(err)
	}
	return starlark.None, nil
}

// variable returns the i-th saved variable. The prologue calls it.
func (r *run) variable(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	i, err := starlark.AsInt32(args[0])
	if err != nil {
		return nil, err
	}
	name := r.state.names()[i]
	v, _, err := r.state.value(r.state.wire.Vars[name])
	if err != nil {
		return nil, r.state.fail(fmt.Errorf("variable %s: %w", name, err))
	}
	return v, nil
}
