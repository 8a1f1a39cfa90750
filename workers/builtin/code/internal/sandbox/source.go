package sandbox

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// walk stores the sources of a file's functions and the names in saved ones.
func (p *program) walk(file string, f *syntax.File) {
	type open struct {
		node syntax.Node
		end  syntax.Position // the furthest position in it
	}
	var path []open
	syntax.Walk(f, func(n syntax.Node) bool {
		if n != nil {
			if id, ok := n.(*syntax.Ident); ok && file != codeFile {
				p.used[id.Name] = true
			}
			path = append(path, open{n, lastToken(n)})
			return true
		}
		done := path[len(path)-1]
		path = path[:len(path)-1]
		if len(path) > 0 {
			outer := &path[len(path)-1]
			outer.end = later(outer.end, done.end)
		}
		switch n := done.node.(type) {
		case *syntax.DefStmt:
			p.storeSource(file, n.Def, done.end, wireFunction{Name: n.Name.Name})
		case *syntax.LambdaExpr:
			p.storeSource(file, n.Lambda, done.end, wireFunction{Name: "lambda", Lambda: true})
		}
		return true
	})
}

// lastToken is the end of a node's last token, if that belongs to no node below it. The parser's Span is not usable:
// for an index, a slice
// and an empty tuple it ends before the bracket.
func lastToken(n syntax.Node) syntax.Position {
	var bracket syntax.Position
	switch n := n.(type) {
	case *syntax.Ident, *syntax.Literal, *syntax.BranchStmt:
		_, end := n.Span()
		return end
	case *syntax.ReturnStmt:
		if n.Result == nil {
			_, end := n.Span()
			return end
		}
	case *syntax.IndexExpr:
		bracket = n.Rbrack
	case *syntax.SliceExpr:
		bracket = n.Rbrack
	case *syntax.ListExpr:
		bracket = n.Rbrack
	case *syntax.Comprehension:
		bracket = n.Rbrack
	case *syntax.DictExpr:
		bracket = n.Rbrace
	case *syntax.CallExpr:
		bracket = n.Rparen
	case *syntax.ParenExpr:
		bracket = n.Rparen
	case *syntax.TupleExpr:
		bracket = n.Rparen
	}
	if bracket.IsValid() {
		bracket.Col++
	}
	return bracket
}

func later(a, b syntax.Position) syntax.Position {
	if a.Line > b.Line || a.Line == b.Line && a.Col > b.Col {
		return a
	}
	return b
}

// storeSource stores the source of a function.
func (p *program) storeSource(file string, pos, end syntax.Position, fn wireFunction) {
	lines := p.texts[file]
	if int(end.Line) > len(lines) || pos.Line > end.Line {
		return
	}
	first, last := lines[pos.Line-1], lines[end.Line-1]
	from, to := offset(first, pos.Col), offset(last, end.Col)
	if pos.Line == end.Line {
		fn.Source = first[from:to]
	} else {
		parts := slices.Clone(lines[pos.Line-1 : end.Line])
		parts[0], parts[len(parts)-1] = first[from:], last[:to]
		fn.Source = strings.Join(parts, "\n")
	}
	if before := first[:from]; !fn.Lambda && strings.Trim(before, " \t") == "" {
		fn.Indent = before
	}
	p.sources[pos.String()] = fn
}

// offset is the byte at which a column begins, in runes from 1.
func offset(line string, col int32) int {
	for i := range line {
		if col--; col < 1 {
			return i
		}
	}
	return len(line)
}

// source finds the source of a function, for the encoder.
func (p *program) source(fn *starlark.Function) (wireFunction, bool) {
	wire, ok := p.sources[fn.Position().String()]
	wire.Defaults, wire.Free = nil, nil
	return wire, ok
}
