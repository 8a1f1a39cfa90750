package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// genExpr draws an expression with the variables a to d and the functions f and g.
func genExpr(rt *rapid.T, depth int) string {
	e := func() string { return genExpr(rt, depth-1) }
	leaves := []string{"a", "b", "c", "d", "1", "-7", "2.5", "'x'", "'é\\n'", "b'y'", "True", "None", "()", "[]", "{}", "[1, 2]", "'''p\nq'''"}
	if depth == 0 {
		return rapid.SampledFrom(leaves).Draw(rt, "leaf")
	}
	switch rapid.IntRange(0, 14).Draw(rt, "expr") {
	case 0:
		return "[" + e() + ", " + e() + "]"
	case 1:
		return "(" + e() + ",)"
	case 2:
		return "{'k': " + e() + ", 1: " + e() + "}"
	case 3:
		return e() + "[0]"
	case 4:
		return e() + "[:1]"
	case 5:
		return "[x for x in " + e() + "]"
	case 6:
		return "(" + e() + " if " + e() + " else " + e() + ")"
	case 7:
		return "(lambda x, y=" + e() + ": " + e() + ")"
	case 8:
		return rapid.SampledFrom([]string{"f", "g", "a", "b"}).Draw(rt, "called") + "(" + e() + ")"
	case 9:
		return "(" + e() + " == " + e() + ")"
	case 10:
		return "len(" + e() + ")"
	case 11:
		return "str(" + e() + ")"
	case 12:
		return "set(" + e() + ")"
	case 13:
		return "(" + e() + "\n + " + e() + ")"
	}
	return rapid.SampledFrom(leaves).Draw(rt, "leaf")
}

func genStatement(rt *rapid.T) string {
	e := func() string { return genExpr(rt, rapid.IntRange(0, 3).Draw(rt, "depth")) }
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
	fn := rapid.SampledFrom([]string{"f", "g"}).Draw(rt, "function")
	end := rapid.SampledFrom([]string{"", " ", "  # c", "\n\n# more"}).Draw(rt, "end")
	switch rapid.IntRange(0, 9).Draw(rt, "statement") {
	case 0:
		return name + " += " + e() + end
	case 1:
		return name + ".append(" + e() + ")" + end
	case 2:
		return name + "['k'] = " + e() + end
	case 3:
		return "def " + fn + "(x, y=" + e() + "): return " + e() + end
	case 4:
		return "def " + fn + "(x, *y, z=" + e() + "):\n\tw = " + e() + "\n\tdef h(v=x): return (v, w, " + e() + ")\n\treturn " + rapid.SampledFrom([]string{"h", "h()", "[h]"}).Draw(rt, "what") + end
	case 5:
		return "if " + e() + ":\n  def " + fn + "(x):\n    " + name + " = [x]\n    return " + e() + "\nelse:\n  " + name + " = " + e() + end
	case 6:
		return "for x in " + e() + ":\n  " + name + " = [x, " + name + "]" + end
	case 7:
		return "print(" + e() + ")" + end
	}
	return name + " = " + e() + end
}

// TestStatementsAsSeparatePrograms splits a program into one program for each statement and expects the same output, and the same
// variables to the byte.
func TestStatementsAsSeparatePrograms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDesk()
		var code, output []string
		var state []byte
		for i := range rapid.IntRange(2, 25).Draw(rt, "statements") {
			statement := "a, b, c, d = 1, [2], {'k': (3, 'x')}, 'text'\ndef f(x): return [x][0]\ng = lambda x: a"
			if i > 0 {
				statement = genStatement(rt)
			}
			resp, err := here().run(t.Context(), fuzzLimits(), Request{Code: statement, State: state, Tools: d.names()}, d)
			if err != nil {
				rt.Fatalf("%s\nafter\n%s: %v", statement, strings.Join(code, "\n"), err)
			}
			if resp.Error != "" || strings.Contains(resp.Output, "not kept: ") {
				continue
			}
			code, output, state = append(code, statement), append(output, resp.Output), resp.State
		}
		limits := fuzzLimits()
		limits.Steps, limits.Output = 1_000_000, 1<<20
		resp, err := here().run(t.Context(), limits, Request{Code: strings.Join(code, "\n"), Tools: d.names()}, d)
		got, want := fmt.Sprint(resp.Error, resp.Output), strings.Join(output, "")
		if err != nil || got != want {
			rt.Fatalf("%s\ngot %q, %v, want %q", strings.Join(code, "\n"), got, err, want)
		}
		if string(resp.State) != string(state) {
			rt.Fatalf("%s\ngot\n%s, in pieces\n%s", strings.Join(code, "\n"), resp.State, state)
		}
	})
}
