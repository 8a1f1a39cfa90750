package sandbox

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/internal/runtest"
)

func TestRunPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, output, err string }{
		"print":          {"print('a', 1, [2])", "a 1 [2]\n", ""},
		"toplevel":       {"n = 0\nwhile n < 3:\n    n += 1\nif n == 3:\n    print(n)", "3\n", ""},
		"arithmetic":     {"x = 2\nprint(x + x, x - 5, x * 3, 7 // x, 7 % x, 7 / x, x << 3, x | 1, x & 3, x ^ 1, -x, ~x)", "4 -3 6 3 1 3.5 16 3 2 3 -2 -3\n", ""},
		"compare":        {"x = [1, (2,)]\nprint(x == [1, (2,)], x != [], 1 < 2, 'a' >= 'b', 2 in [1, 2], 3 not in [1], 'b' in 'abc')", "True True True False True True True\n", ""},
		"augmented":      {"a = [1]\nb = a\na += [2]\nd = {'k': 1}\nd['k'] += 5\nd['k'] *= 2\ne = {'x': [1]}\ne['x'] += (2, 3)\nprint(b, d, e)", "[1, 2] {\"k\": 12} {\"x\": [1, 2, 3]}\n", ""},
		"augmentedonce":  {"n = [0]\ndef i():\n    n[0] += 1\n    return 0\nx = [1]\nx[i()] += 1\nprint(x, n)", "[2] [1]\n", ""},
		"augmenteddict":  {"d = {}\nc = d\nd |= {'a': 1}\ns = set([1])\ns |= set([2])\nprint(c, s)", "{\"a\": 1} set([1, 2])\n", ""},
		"slices":         {"x = [1, 2, 3, 4]\nprint(x[1:3], x[::-1], 'abcd'[1:], (1, 2)[:1])", "[2, 3] [4, 3, 2, 1] bcd (1,)\n", ""},
		"methods":        {"print(' A '.strip().lower(), 'a,b'.split(','), '-'.join(['x', 'y']), 'aXa'.replace('a', 'bb'), '{} {k}'.format(1, k=2), '%s/%d' % ('q', 3))", "a [\"a\", \"b\"] x-y bbXbb 1 2 q/3\n", ""},
		"sorting":        {"print(sorted([3, 1, 2], reverse=True), sorted(['bb', 'a'], key=lambda s: len(s)), max([1, 5, 2]), min(3, 2))", "[3, 2, 1] [\"a\", \"bb\"] 5 2\n", ""},
		"comprehensions": {"print([x * 2 for x in range(3) if x], {k: v for k, v in zip('a b'.split(), [1, 2])})", "[2, 4] {\"a\": 1, \"b\": 2}\n", ""},
		"calls":          {"def f(a, *b, c=1, **d):\n    return (a, b, c, d)\nprint(f(*[1, 2], **{'c': 3, 'e': 4}))", "(1, (2,), 3, {\"e\": 4})\n", ""},
		"json":           {"print(json.decode('{\"a\":[1,2.5]}'), json.encode({'b': (1, None)}), math.floor(2.5))", "{\"a\": [1, 2.5]} {\"b\":[1,null]} 2\n", ""},
		"tool":           {"print(add(a=2, b=3) + 1)", "6\n", ""},
		"tooldict":       {"print(echo({'z': 1, 'a': [True, None, 1.5, 'x']}))", "{\"a\": [True, None, 1.5, \"x\"], \"z\": 1}\n", ""},
		"tooltext":       {"print(greet(name='bob'))", "hello bob\n", ""},
		"toolbyname":     {"print(tool('my-tool'), tool('print'), tool(add, a=1, b=1))", "dashed shadowed 2\n", ""},
		"toolpositional": {"add(1, 2)", "", "line 1: add(1, 2)\nadd takes named arguments, or one dict; write add(name=value)"},
		"toolunknown":    {"tool('nope')", "", "\"nope\" is not a tool; there are: add, "},
		"toolfails":      {"def go():\n    return broken()\nx = 1\ngo()", "", "line 4: go()\nline 2, in go: return broken()\nbroken failed: out of paper"},
		"toolpanics":     {"panics()", "", "panics failed: internal error: ouch"},
		"attempt":        {"r = attempt(broken)\nprint(r.ok, r.error, r.value)\nr = attempt(add, a=1, b=2)\nprint(r, attempt('my-tool').value)\nif r: print('fine')", "False out of paper None\nresult(ok=True, value=3) dashed\nfine\n", ""},
		"attemptother":   {"attempt(lambda: 1 // 0)", "", "floored division by zero"},
		"gather":         {"print(gather([call(add, a=i, b=1) for i in range(3)]), gather([call('my-tool'), call(broken)], attempt=True))", "[1, 2, 3] [result(ok=True, value=\"dashed\"), result(ok=False, error=\"out of paper\")]\n", ""},
		"gatherfails":    {"gather([call(add, a=1, b=1), call(broken)])", "", "broken failed: out of paper"},
		"gatherwrong":    {"gather([add(a=1, b=1)])", "", "write gather([call(tool, name=value), ..])"},
		"start":          {"h = start(add, a=1, b=2)\nprint(h.id, h.tool, wait(h), h == h)", "t0 add {\"of\": \"t0\"} True\n", ""},
		"deepresult":     {"print(len(deep_json()))", "10000\n", ""},
		"undefined":      {"x = 1\nprint(y)", "", "line 2: undefined: y; assign it first"},
		"syntax":         {"x = 1\nimport os", "", "there are no imports"},
		"fstring":        {"x = f\"{y}\"", "", "there are no f-strings"},
		"load":           {"load('a', 'b')", "", "load not implemented"},
		"recursion":      {"def f(n):\n    return f(n)\nf(1)", "", "function f called recursively; recursion is off"},
		"attribute":      {"x = {'a': 1}\nx.a", "", "dict has no .a field or method; for a key write"},
		"assignfield":    {"x = {}\nx.a = 1", "", "can't assign to .a field of dict; for a key write"},
		"setarg":         {"print(echo(x=set([2, 1])))", "{\"x\": [2, 1]}\n", ""},
		"bytesarg":       {"echo(x=b'1')", "", "arguments of echo: in dict key \"x\": "},
		"largearg":       {"echo(x='a' * (17 << 20))", "", "arguments of echo: the value takes 17825800 bytes (limit 16777216)"},
		"deeparg":        {"x = 1\nfor i in range(100): x = [x]\necho(x=x)", "", "arguments of echo: the value nests deeper than 100 levels"},
		"reserved":       {"list = [1]\nprint(list)", "[1]\nnot kept: list: it is the name of a function that is always there; use another name\n", ""},
		"iterator":       {"x = 'abc'.elems()", "not kept: x: holds a string.elems\n", ""},
		"module":         {"j = json\np = [print]", "not kept: j: holds a module; use its name\nnot kept: p: holds a function that is always there; use its name\n", ""},
		"fail":           {"fail('no', 1)", "", "line 1: fail('no', 1)\nfail: no 1"},
		"finishedlater":  {"finish(1)\nprint('no')", "1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := runCode(t, newDesk(), Limits{Timeout: 10 * time.Minute}, Request{Code: c.code})
			runtest.Equal(t, "output", resp.Output, c.output)
			if c.err == "" && resp.Error != "" || !strings.Contains(resp.Error, c.err) {
				t.Errorf("error: got %q, want %q", resp.Error, c.err)
			}
		})
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	schema := &jsonschema.Schema{Type: "object", Required: []string{"n"}}
	for name, c := range map[string]struct {
		code, value, err string
		finished         bool
	}{
		"valid":    {"x = 1\nfinish({'n': 2})\nx = 2", `{"n":2}`, "", true},
		"invalid":  {"finish(3)", "", "call finish again", false},
		"missing":  {"finish({})", "", "required", false},
		"nested":   {"def f():\n    finish({'n': 1})\nsorted([1, 2], key=lambda x: attempt(f))", `{"n":1}`, "", true},
		"nonjson":  {"finish(b'1')", "", "cannot encode", false},
		"cyclical": {"x = {}\nx['n'] = x\nfinish(x)", "", "cycle in JSON", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := runCode(t, newDesk(), Limits{}, Request{Code: c.code, AcceptFinish: true, FinishSchema: schema})
			if resp.Finished != c.finished || string(resp.Value) != c.value || !strings.Contains(resp.Error, c.err) || c.err == "" && resp.Error != "" {
				t.Errorf("got %+v, want %+v", resp, c)
			}
		})
	}
}

func TestStateLivesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs   []string
		output string
	}{
		"values":     {[]string{"a = [1, 2.5, 'x', b'y', None, True, (1,), {'k': set([1])}, 10 << 400]", "a[0] += 1\nprint(a)"}, "[2, 2.5, \"x\", b\"y\", None, True, (1,), {\"k\": set([1])}, " + "25822498780869085896559191720030118743297057928292235128306593565406476220168411946296453532801378314359031719727474933760]"},
		"shared":     {[]string{"a = [1]\nb = {'a': a}", "a.append(2)", "print(b, b['a'] == a)"}, "{\"a\": [1, 2]} True\n"},
		"cycle":      {[]string{"a = [1]\na.append(a)", "print(len(a[1][1][1]))"}, "2\n"},
		"tuplecycle": {[]string{"a = []\nt = (a, 1)\na.append(t)", "print(t[0][0][1], len(t))"}, "1 2\n"},
		"doubling":   {[]string{"x = 1\nfor i in range(80): x = [x, x]", "n = 0\nwhile type(x) == 'list':\n    x = x[1]\n    n += 1\nprint(n)"}, "80\n"},
		"function":   {[]string{"k = 2\ndef f(x, y=[1]):\n    # doc\n    y.append(x)\n    return (x * k, y)", "f(1)\nk = 10", "print(f(5))"}, "(50, [1, 1, 5])\n"},
		"lambda":     {[]string{"fs = [lambda x: x + 1, lambda x: x * 2]", "print([f(3) for f in fs])"}, "[4, 6]\n"},
		"closure":    {[]string{"def mk(n):\n    log = []\n    def g(x):\n        log.append(x)\n        return (n, log)\n    return g\ng5 = mk(5)", "g5(1)", "h = mk(7)\nprint(g5(2), h(3))"}, "(5, [1, 2]) (7, [3])\n"},
		"mutual":     {[]string{"def even(n):\n    return odd\ndef odd(n):\n    return even", "print(type(even(1)), even(1) == odd)"}, "function True\n"},
		"registry":   {[]string{"table = {}\ndef use():\n    return sorted(table.keys())\ntable['use'] = use", "print(table['use']())"}, "[\"use\"]\n"},
		"selflist":   {[]string{"def mk():\n    box = []\n    def g():\n        return len(box)\n    box.append(g)\n    return g\ng = mk()", "print(g())"}, "1\n"},
		"globalself": {[]string{"def f():\n    return f", "print(f() == f, f)", "print(f() == f, f)"}, "True <function f>\n"},
		"named":      {[]string{"def f(): return 1", "a = [str(f)]", "print(a)"}, "[\"<function f>\"]\n"},
		"redefine":   {[]string{"def f(): return 1", "def f(): return 2", "print(f())"}, "2\n"},
		"multiline":  {[]string{"if True:\n    def f():\n        return '''a\n  b'''", "print(f())"}, "a\n  b\n"},
		"handle":     {[]string{"h = start(add, a=1)", "print(wait(h))"}, "{\"of\": \"t0\"}\n"},
		"outcome":    {[]string{"r = [attempt(broken), attempt(add, a=1, b=1)]", "print(r)"}, "[result(ok=False, error=\"out of paper\"), result(ok=True, value=2)]\n"},
		"ranges":     {[]string{"r = [range(3), range(5, 1, -2), range(0), range(7, 8)]\nhuge = range(-(1 << 62), 1 << 62, 3)", "print(r == [range(3), range(5, 1, -2), range(0), range(7, 8)] and huge == range(-(1 << 62), 1 << 62, 3), [list(x) for x in r])"}, "True [[0, 1, 2], [5, 3], [], [7]]\n"},
		"aftererror": {[]string{"a = 1\nfail('x')", "print(a)"}, "1\n"},
		"tupleslice": {[]string{"t = (1, 2, 3)\nu = t[:2]", "print(t, u)"}, "(1, 2, 3) (1, 2)\n"},
		"badtext":    {[]string{"s = '\\u00ff'[:1]\nf = [float('nan'), float('inf'), -0.0]", "print(len(s), f)"}, "1 [nan, +inf, -0.0]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			var state []byte
			var last Response
			for _, code := range c.runs {
				last = runCode(t, d, Limits{}, Request{Code: code, State: state})
				state = last.State
				if last.Error != "" && !strings.Contains(last.Error, "fail: x") {
					t.Fatalf("%s: %s", code, last.Error)
				}
				again := runCode(t, d, Limits{}, Request{Code: "pass", State: state})
				if again.Dirty || string(again.State) != string(state) || again.Error != "" {
					t.Fatalf("a run that does nothing: got dirty %v, error %q, state\n%s, want\n%s", again.Dirty, again.Error, again.State, state)
				}
			}
			if !strings.Contains(last.Output, c.output) {
				t.Errorf("got %q, want %q; state %s", last.Output, c.output, state)
			}
		})
	}
}

func TestRerunGivesTheSame(t *testing.T) {
	t.Parallel()
	code := `
data = [add(a=i, b=i) for i in range(3)]
more = gather([call(greet, name=str(n)) for n in data])
h = start(echo, q="x")
def f(x, y={}):
    y[x] = more
    return y
print(f("k"), wait(h), attempt(broken))
message("half way")
names = {k: v for k, v in zip(more, data)}
finish({"n": names, "s": sorted(names)})
`
	d := newDesk()
	first := runProcess(t, d, Limits{}, Request{Code: code, AcceptFinish: true})
	if first.Error != "" || !first.Finished || first.Calls != 8 {
		t.Fatalf("first run: got %+v", first)
	}
	again := newDesk()
	again.results = d.results
	for name := range again.tools {
		if name != "broken" {
			again.tools[name] = func(map[string]any) (string, error) { return "", errors.New("called again") }
		}
	}
	second := runProcess(t, again, Limits{}, Request{Code: code, AcceptFinish: true, Tools: d.names()})
	if !reflect.DeepEqual(first, second) {
		t.Errorf("rerun: got %+v, want %+v", second, first)
	}
	if !reflect.DeepEqual(d.calls, again.calls) || !reflect.DeepEqual(d.messages, again.messages) {
		t.Errorf("calls: got %v, want %v", again.calls, d.calls)
	}
	third := runProcess(t, newDesk(), Limits{}, Request{Code: "pass", State: first.State})
	if third.Dirty {
		t.Errorf("state: got\n%s, want\n%s", third.State, first.State)
	}
}

func TestVariablesOutliveTools(t *testing.T) {
	t.Parallel()
	d := newDesk()
	first := runCode(t, d, Limits{}, Request{Code: "def f():\n    return add(a=1, b=2)\nprint(f())"})
	second := runCode(t, d, Limits{}, Request{Code: "x = 1\nf()", State: first.State, Tools: []string{"echo"}})
	if want := "add is not defined: it was not kept, or the tool is gone"; !strings.Contains(second.Error, want) {
		t.Errorf("got %q, want %q", second.Error, want)
	}
	if want := "line 2 of the saved function f: return add(a=1, b=2)"; !strings.Contains(second.Error, want) {
		t.Errorf("got %q, want %q", second.Error, want)
	}
	strict := runCode(t, d, Limits{}, Request{Code: "print(1)\nadd()", State: first.State, Tools: []string{"echo"}})
	if strict.Output != "" || !strings.HasPrefix(strict.Error, "line 2: undefined: add") {
		t.Errorf("got %q %q, want it to be undefined before anything runs", strict.Output, strict.Error)
	}
	third := runCode(t, d, Limits{}, Request{Code: "print(f(), x)", State: second.State})
	if third.Output != "3 1\n" {
		t.Errorf("got %q %q, want 3 1", third.Output, third.Error)
	}
}

// TestLinesOfLaterPrograms expects the right lines in errors of programs that restore variables.
func TestLinesOfLaterPrograms(t *testing.T) {
	t.Parallel()
	d := newDesk()
	state := runCode(t, d, Limits{}, Request{Code: "def f():\n    broken()\nx = 1"}).State
	for _, c := range []struct{ code, err string }{
		{"y = 2\nbroken()", "line 2: broken()\nbroken failed: out of paper"},
		{"y = 2\nf()", "line 2: f()\nline 2 of the saved function f: broken()\nbroken failed: out of paper"},
		{"if x:\n    def g():\n        fail('x')\n    g()", "line 4: g()\nline 3, in g: fail('x')\nfail: x"},
		{"while True:\n    pass", "line 1: while True:\nthe program did too much work"},
	} {
		if resp := runCode(t, d, Limits{Steps: 1000}, Request{Code: c.code, State: state}); !strings.HasPrefix(resp.Error, c.err) {
			t.Errorf("%q: got %q, want %q", c.code, resp.Error, c.err)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	d := newDesk()
	runProcess(t, d, Limits{}, Request{Code: "message('a')\nmessage([1], kind='note')"})
	if want := []string{"message:a", "note:[1]"}; !slices.Equal(d.messages, want) {
		t.Errorf("got %v, want %v", d.messages, want)
	}
}
