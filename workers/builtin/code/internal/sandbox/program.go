package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const codeFile = "code"

// program is the code and the state of earlier runs as one file: it creates saved functions from their source,
// assigns the saved variables,
// and then runs the code. Old and new functions therefore have the same globals.
type program struct {
	sources  map[string]wireFunction // by file, line and column of the function
	texts    map[string][]string     // lines by file
	labels   map[string]string       // names of saved functions by file
	used     map[string]bool         // names in saved functions, defined or not
	compiled *starlark.Program
}

func fileOptions() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}
}

func where(pos syntax.Position) string { return pos.String() }

// parse parses one source, stores the sources of its functions, and rewrites it.
func (p *program) parse(file, text string) (*syntax.File, error) {
	if line, ok := checkBrackets(text); !ok {
		pos := syntax.MakePosition(&file, int32(line), 1)
		return nil, syntax.Error{Pos: pos, Msg: fmt.Sprintf("more than %d brackets are open; use variables for parts", maxBrackets)}
	}
	p.texts[file] = strings.Split(text, "\n")
	f, err := fileOptions().Parse(file, text, 0)
	if err != nil {
		return nil, err
	}
	// The tree is rewritten in place, so sources come first.
	deep := p.walk(file, f)
	var r rewriter
	if deep {
		r.fail(syntax.MakePosition(&file, 1, 1), "the code nests deeper than %d levels; use variables for parts of it", maxSyntax)
	}
	r.stmts(f.Stmts)
	return f, r.err
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
	stmt := f.Stmts[0]
	if outer, ok := stmt.(*syntax.IfStmt); ok && fn.Indent != "" && len(outer.True) == 1 {
		stmt = outer.True[0]
	}
	pos := syntax.MakePosition(&file, 1, 1)
	name := func(s string) *syntax.Ident { return &syntax.Ident{NamePos: pos, Name: s} }
	factory := &syntax.DefStmt{Def: pos, Name: name(fmt.Sprintf("make%s%d", mark, i)), Lparen: pos, Rparen: pos}
	var params []syntax.Expr
	switch n := stmt.(type) {
	case *syntax.DefStmt:
		// Not under its own name: that one stays a global for its body.
		n.Name.Name += mark
		params = n.Params
		factory.Body = []syntax.Stmt{n, &syntax.ReturnStmt{Return: pos, Result: name(n.Name.Name)}}
	case *syntax.ExprStmt:
		lambda, ok := unparen(n.X).(*syntax.LambdaExpr)
		if !ok {
			return nil, errors.New("not a lambda")
		}
		params = lambda.Params
		factory.Body = []syntax.Stmt{&syntax.ReturnStmt{Return: pos, Result: lambda}}
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

// assemble joins the parts. An error of type stateError is an error of the state.
func (p *program) assemble(code string, d *decoder) (*syntax.File, error) {
	p.sources, p.texts = make(map[string]wireFunction), make(map[string][]string)
	p.labels, p.used = make(map[string]string), make(map[string]bool)
	f, err := p.parse(codeFile, code)
	if err != nil {
		return nil, err
	}
	var prologue []syntax.Stmt
	file := codeFile // the file of the first statement counts for all at the top level
	pos := syntax.MakePosition(&file, 0, 0)
	prologue = append(prologue, &syntax.BranchStmt{Token: syntax.PASS, TokenPos: pos})
	var factories []syntax.Expr
	for i, node := range d.wire.Heap {
		if node.Fn == nil {
			continue
		}
		factory, err := p.factory(i, node.Fn)
		if err != nil {
			return nil, &stateError{fmt.Errorf("function %s: %w", node.Fn.Name, err)}
		}
		prologue = append(prologue, factory)
		factories = append(factories, &syntax.Ident{NamePos: pos, Name: factory.Name.Name})
	}
	if len(d.wire.Vars) > 0 {
		prologue = append(prologue, &syntax.ExprStmt{X: guard(guardRestore, pos, factories...)})
	}
	for i, name := range d.names() {
		if !isIdentifier(name) {
			return nil, &stateError{fmt.Errorf("%q is not a name", name)}
		}
		value := guard(guardVar, pos, &syntax.Literal{Token: syntax.INT, TokenPos: pos, Value: int64(i)})
		prologue = append(prologue, &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: &syntax.Ident{NamePos: pos, Name: name}, RHS: value})
	}
	f.Stmts = append(prologue, f.Stmts...)
	return f, nil
}

type stateError struct{ err error }

func (e *stateError) Error() string { return "read state: " + e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// restore creates the functions and fills the containers. The prologue calls it.
func (r *run) restore(thread *starlark.Thread, _ *starlark.Builtin, factories starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	d := r.state
	factory := make(map[int]starlark.Value)
	at := 0
	for i, node := range d.wire.Heap {
		if node.Fn != nil {
			factory[i] = factories[at]
			at++
		}
	}
	making := make(map[int]bool)
	var build func(i, depth int) error
	build = func(i, depth int) error {
		if making[i] || depth > maxNesting {
			return errors.New("a function needs itself")
		}
		making[i] = true
		defer delete(making, i)
		var args starlark.Tuple
		fn := d.wire.Heap[i].Fn
		for _, b := range append(slices.Clone(fn.Free), fn.Defaults...) {
			v, err := d.value(b.Value)
			if err != nil {
				return err
			}
			if v == nil {
				var s wireSpecial
				if err := unmarshalRef(b.Value, &s); err != nil {
					return err
				}
				if err := build(*s.Ref, depth+1); err != nil {
					return err
				}
				v = d.heap[*s.Ref]
			}
			args = append(args, v)
		}
		if d.heap[i] != nil {
			return nil
		}
		v, err := starlark.Call(thread, factory[i], args, nil)
		d.heap[i] = v
		return err
	}
	err := func() error {
		for i, node := range d.wire.Heap {
			if node.Fn != nil && d.heap[i] == nil {
				if err := build(i, 0); err != nil {
					return err
				}
			}
		}
		return d.fill(r.meter)
	}()
	if err != nil {
		if r.meter.stopped == nil {
			r.fatal = &stateError{err}
		}
		return nil, err
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
	v, err := r.state.value(r.state.wire.Vars[name])
	if err == nil && v == nil {
		err = errors.New("a function is missing")
	}
	if err != nil {
		r.fatal = &stateError{fmt.Errorf("variable %s: %w", name, err)}
		return nil, r.fatal
	}
	return v, nil
}

func isIdentifier(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c > 0x7f && isLetter(c)
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && !reserved(s)
}

func unmarshalRef(data wireValue, s *wireSpecial) error {
	if err := json.Unmarshal(data, s); err != nil {
		return err
	}
	if s.Ref == nil {
		return errors.New("a function is missing")
	}
	return nil
}
