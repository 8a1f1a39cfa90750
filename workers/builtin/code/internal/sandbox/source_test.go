package sandbox

import (
	"encoding/json"
	"testing"
)

// bodies are functions with every kind of end, with x = [1, 2].
var bodies = map[string]string{
	"name": "return x", "number": "return 0x1F", "fraction": "return 1.", "text": "return 'é'", "escape": "return 'a\\\nb'",
	"lines": "return '''a\nb'''", "index": "return x[0]", "index of index": "return [x][0][1]", "slice": "return x[0:1]",
	"whole slice": "return x[:]", "tuple": "return (1, 2)", "bare tuple": "return 1, x[1]", "empty tuple": "return ()",
	"list": "return []", "dict": "return {}", "entry": "return {1: x[0]}", "comprehension": "return [y for y in x if x[0]]",
	"call": "return len(x)", "method": "return 'a'.upper()", "paren": "return (x)", "choice": "return x if x else x[0]",
	"operator": "return x[0] + x[1]", "unary": "return not x[0]", "nothing": "return", "pass": "pass", "broken lines": "return x[\n0\n]",
	"continued": "return x \\\n + \\\n x[:1]", "if": "\n  if not x: pass\n  else: return x[0]", "for": "\n  for y in x: return x[y]",
	"while": "\n  while True: return ()", "assignment": "x[0] = x[1]", "inner": "\n\tdef f(): return x[0]\n\treturn f()[()]if 0 else f()",
}

// TestFunctionSourcesAreWhole expects the whole source of functions with every kind of end, and the same results in a later program.
func TestFunctionSourcesAreWhole(t *testing.T) {
	t.Parallel()
	for name, body := range bodies {
		for _, after := range []string{"", "\n", "\n\n# more", " # more"} {
			source := "def f(x): " + body
			first := runCode(t, newDesk(), Limits{}, Request{Code: "if True:\n  pass\n" + source + after + "\na = f([1, 2])"})
			if first.Error != "" {
				t.Fatalf("%s: %s", name, first.Error)
			}
			var state wireState
			if err := json.Unmarshal(first.State, &state); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kept := ""
			for _, node := range state.Heap {
				if node.Fn != nil {
					kept = node.Fn.Source
				}
			}
			if kept != source {
				t.Errorf("%s: kept %q, want %q", name, kept, source)
			}
			later := runCode(t, newDesk(), Limits{}, Request{Code: "print(f([1, 2]) == a)", State: first.State})
			if later.Error != "" || later.Output != "True\n" || later.Dirty {
				t.Errorf("%s: later got %q, %q, state %s, want the same as %s", name, later.Output, later.Error, later.State, first.State)
			}
		}
	}
}

func TestLambdaSources(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"x[0]": "1", "x[:1]": "[1]", "()": "()", "(x[1], ())": "(2, ())", "(lambda: x[1])()": "2", "{1: x[0]}": "{1: 1}",
	} {
		first := runCode(t, newDesk(), Limits{}, Request{Code: "f = [lambda x: " + body + ", 'é']"})
		later := runCode(t, newDesk(), Limits{}, Request{Code: "print(f[0]([1, 2]))", State: first.State})
		if later.Error != "" || later.Output != want+"\n" || later.Dirty {
			t.Errorf("%s: got %q, %q, state %s, want %s", body, later.Output, later.Error, later.State, want)
		}
	}
}

func TestCodeIsText(t *testing.T) {
	t.Parallel()
	resp := runProcess(t, newDesk(), Limits{}, Request{Code: "def f(): return '\xff'"})
	if resp.Error != "the code is not UTF-8" || resp.State != nil {
		t.Errorf("got %q, state %s", resp.Error, resp.State)
	}
}
