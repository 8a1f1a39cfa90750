package sandbox

import (
	"fmt"

	"go.starlark.net/syntax"
)

// The interpreter has no hook for memory, and none for the time of one operation. So the syntax tree is rewritten
// before it is compiled:
// operations whose cost depends on their operands become calls of guards, whose names no code can write.
const (
	guardAttr    = "." // x.name
	guardSlice   = "[:]"
	guardStride  = "[::]"
	guardKey     = "[key]"
	guardDict    = "{}"
	guardRef     = "[ref]" // x[i] of x[i] += y
	guardSet     = "[set]" // assigns to it
	guardArgs    = "*args"
	guardKwargs  = "**kwargs"
	guardRestore = "restore" + mark
	guardVar     = "variable" + mark
	mark         = "\u2060" // in names that the code cannot write
)

type rewriter struct {
	depth int
	err   error
}

func (r *rewriter) fail(pos syntax.Position, format string, args ...any) {
	if r.err == nil {
		r.err = syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
	}
}

func guard(name string, pos syntax.Position, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: name}, Lparen: pos, Args: args, Rparen: pos}
}

func (r *rewriter) enter(n syntax.Node) bool {
	if r.depth++; r.depth > maxSyntax {
		r.fail(syntax.Start(n), "the code nests deeper than %d levels; use variables for parts of it", maxSyntax)
	}
	return r.err == nil
}

func (r *rewriter) stmts(list []syntax.Stmt) {
	for i, s := range list {
		if !r.enter(s) {
			return
		}
		list[i] = r.stmt(s)
		r.depth--
	}
}

func (r *rewriter) stmt(s syntax.Stmt) syntax.Stmt {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		if s.Op == syntax.EQ {
			r.target(s.LHS)
			s.RHS = r.expr(s.RHS)
			return s
		}
		return r.augmented(s)
	case *syntax.DefStmt:
		r.params(s.Params)
		r.stmts(s.Body)
	case *syntax.ExprStmt:
		s.X = r.expr(s.X)
	case *syntax.IfStmt:
		s.Cond = r.expr(s.Cond)
		r.stmts(s.True)
		r.stmts(s.False)
	case *syntax.ForStmt:
		r.target(s.Vars)
		s.X = r.expr(s.X)
		r.stmts(s.Body)
	case *syntax.WhileStmt:
		s.Cond = r.expr(s.Cond)
		r.stmts(s.Body)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = r.expr(s.Result)
		}
	case *syntax.LoadStmt:
		r.fail(s.Load, "load is not available; json and math are already there")
	}
	return s
}

// augmented rewrites x op= y to an assignment of a guard's result.
func (r *rewriter) augmented(s *syntax.AssignStmt) syntax.Stmt {
	op := s.Op.String() // "+=" and so on
	switch lhs := unparen(s.LHS).(type) {
	case *syntax.Ident:
		if isNumber(s.RHS) && (s.Op == syntax.PLUS_EQ || s.Op == syntax.MINUS_EQ) {
			return s
		}
		read := &syntax.Ident{NamePos: lhs.NamePos, Name: lhs.Name}
		s.RHS = guard(op, s.OpPos, read, r.expr(s.RHS))
		s.Op, s.LHS = syntax.EQ, lhs
		return s
	case *syntax.IndexExpr:
		// x and i are evaluated once, then x[i] is read, then y is evaluated.
		ref := guard(guardRef, lhs.Lbrack, r.expr(lhs.X), r.expr(lhs.Y))
		name := &syntax.Literal{Token: syntax.STRING, TokenPos: s.OpPos, Value: op}
		return &syntax.ExprStmt{X: guard(guardSet, s.OpPos, ref, name, r.expr(s.RHS))}
	case *syntax.DotExpr:
		r.fail(lhs.Dot, "cannot assign to .%s; use a dict", lhs.Name.Name)
	}
	return s // the resolver reports the error
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// target rewrites the expressions in the target of an assignment.
func (r *rewriter) target(e syntax.Expr) {
	if !r.enter(e) {
		return
	}
	defer func() { r.depth-- }()
	switch e := e.(type) {
	case *syntax.ParenExpr:
		r.target(e.X)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			r.target(x)
		}
	case *syntax.ListExpr:
		for _, x := range e.List {
			r.target(x)
		}
	case *syntax.IndexExpr:
		e.X = r.expr(e.X)
		e.Y = r.key(e.Y)
	case *syntax.DotExpr:
		r.fail(e.Dot, "cannot assign to .%s; use a dict", e.Name.Name)
	}
}

func (r *rewriter) params(list []syntax.Expr) {
	for _, p := range list {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			b.Y = r.expr(b.Y)
		}
	}
}

func (r *rewriter) exprs(list []syntax.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

func (r *rewriter) optional(e syntax.Expr) syntax.Expr {
	if e == nil {
		return nil
	}
	return r.expr(e)
}

// key guards the hash of a key.
func (r *rewriter) key(e syntax.Expr) syntax.Expr {
	e = r.expr(e)
	if _, ok := unparen(e).(*syntax.Literal); ok {
		return e
	}
	return guard(guardKey, syntax.Start(e), e)
}

func isNumber(e syntax.Expr) bool {
	lit, ok := unparen(e).(*syntax.Literal)
	return ok && (lit.Token == syntax.INT || lit.Token == syntax.FLOAT)
}

func isLiteral(e syntax.Expr) bool {
	_, ok := unparen(e).(*syntax.Literal)
	return ok
}

func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	if !r.enter(e) {
		return e
	}
	defer func() { r.depth-- }()
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return r.binary(e)
	case *syntax.CallExpr:
		r.call(e)
	case *syntax.Comprehension:
		return r.comprehension(e)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.DictEntry:
		e.Key, e.Value = r.key(e.Key), r.expr(e.Value)
	case *syntax.DictExpr:
		r.exprs(e.List)
		return guard(guardDict, e.Lbrace, e)
	case *syntax.DotExpr:
		name := &syntax.Literal{Token: syntax.STRING, TokenPos: e.NamePos, Value: e.Name.Name}
		if e.X = r.expr(e.X); e.Name.Name == "append" { // append charges for the stored element
			return e
		}
		return guard(guardAttr, e.Dot, e.X, name)
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), r.key(e.Y)
	case *syntax.LambdaExpr:
		r.params(e.Params)
		e.Body = r.expr(e.Body)
	case *syntax.ListExpr:
		r.exprs(e.List)
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.SliceExpr:
		name := guardSlice
		if e.Step != nil {
			name = guardStride
		}
		e.X, e.Lo, e.Hi, e.Step = r.expr(e.X), r.optional(e.Lo), r.optional(e.Hi), r.optional(e.Step)
		return guard(name, e.Lbrack, e)
	case *syntax.TupleExpr:
		r.exprs(e.List)
	case *syntax.UnaryExpr:
		e.X = r.optional(e.X)
	}
	return e
}

func (r *rewriter) binary(e *syntax.BinaryExpr) syntax.Expr {
	e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	switch e.Op {
	case syntax.AND, syntax.OR:
		return e
	case syntax.PLUS, syntax.MINUS, syntax.SLASH, syntax.SLASHSLASH:
		if isNumber(e.X) || isNumber(e.Y) {
			return e
		}
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		if isLiteral(e.X) || isLiteral(e.Y) {
			return e
		}
	default:
	}
	return guard(e.Op.String(), e.OpPos, e.X, e.Y)
}

func (r *rewriter) call(e *syntax.CallExpr) {
	e.Fn = r.expr(e.Fn)
	for i, arg := range e.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				arg.Y = r.expr(arg.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR {
				arg.X = guard(guardArgs, arg.OpPos, r.expr(arg.X))
				continue
			}
			if arg.Op == syntax.STARSTAR {
				arg.X = guard(guardKwargs, arg.OpPos, r.expr(arg.X))
				continue
			}
		}
		e.Args[i] = r.expr(arg)
	}
}

func (r *rewriter) comprehension(e *syntax.Comprehension) syntax.Expr {
	for _, clause := range e.Clauses {
		switch c := clause.(type) {
		case *syntax.ForClause:
			r.target(c.Vars)
			c.X = r.expr(c.X)
		case *syntax.IfClause:
			c.Cond = r.expr(c.Cond)
		}
	}
	e.Body = r.expr(e.Body)
	if e.Curly {
		return guard(guardDict, e.Lbrack, e)
	}
	return e
}

// checkBrackets rejects brackets that nest too deeply, before the parser, which recurses. It skips strings and
// comments, and misses no
// bracket that the parser sees.
func checkBrackets(code string) (line int, ok bool) {
	depth, line := 0, 1
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case '\n':
			line++
		case '(', '[', '{':
			if depth++; depth > maxBrackets {
				return line, false
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '#':
			for i+1 < len(code) && code[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := skipString(code, i)
			for ; i < end; i++ {
				if code[i] == '\n' {
					line++
				}
			}
		}
	}
	return line, true
}

// skipString returns the index of the last byte of the string that starts at i.
// Raw strings end where others do: a backslash keeps the quote in both.
func skipString(code string, i int) int {
	quote := code[i]
	triple := i+2 < len(code) && code[i+1] == quote && code[i+2] == quote
	if triple {
		i += 2
	}
	for i++; i < len(code); i++ {
		switch {
		case code[i] == '\\':
			i++
		case code[i] == '\n' && !triple:
			return i - 1
		case code[i] != quote:
		case !triple:
			return i
		case i+2 < len(code) && code[i+1] == quote && code[i+2] == quote:
			return i + 2
		}
	}
	return len(code) - 1
}
