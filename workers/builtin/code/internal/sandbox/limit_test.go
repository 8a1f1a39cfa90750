package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLongHostileProgramsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, err string }{
		"doubling":        {"s = 'a'\nwhile True:\n    s = s + s", "too much memory"},
		"doublinginplace": {"s = 'a'\nwhile True:\n    s += s", "too much memory"},
		"doublinglist":    {"s = [1]\nwhile True:\n    s.extend(s)", "too much"},
		"element":         {"d = {'s': 'ab'}\nwhile True:\n    d['s'] += d['s']", "too much memory"},
		"biglist":         {"x = [0] * 10 ** 9", "there is no **"},
		"repeatlist":      {"x = [0] * 1000000000", "too much"},
		"repeattext":      {"x = 1000000000000 * 'ab'", "too much"},
		"listrange":       {"list(range(1000000000000))", "too much work"},
		"maxrange":        {"max(range(1000000000000))", "too much work"},
		"sortrange":       {"sorted(range(10000000))", "too much"},
		"ziprange":        {"zip(*[range(1000000)] * 100)", "too much"},
		"spread":          {"def f(*a): return a\nb = [0] * 100000\nacc = []\nwhile True: acc.append(f(*b))", "too much"},
		"loop":            {"while True: pass", "too much work"},
		"nestedloop":      {"for i in range(10000000000):\n    for j in range(10000000000): pass", "too much work"},
		"hugeint":         {"x = 3\nwhile True:\n    x = x * x", "the integer is too large"},
		"hugeshift":       {"x = 3\nwhile True:\n    x = x << 511", "the integer is too large"},
		"parseint":        {"int('9' * 1000000)", "the integer is too large"},
		"replace":         {"('a' * 1000000).replace('a', 'b' * 1000000)", "too much memory"},
		"join":            {"('a' * 1000000).join(['b'] * 100000)", "too much"},
		"format":          {"('{0}' * 100000).format('b' * 100000)", "too much memory"},
		"percent":         {"('%s' * 10000) % tuple(['b' * 100000] * 10000)", "too much"},
		"split":           {"acc = []\nwhile True: acc.append(('a,' * 100000).split(','))", "too much"},
		"deepprint":       {"x = []\nfor i in range(100000): x = [x]\nprint(x)", "nests deeper"},
		"deepstr":         {"x = ()\nfor i in range(100000): x = (x,)\nstr(x)", "nests deeper"},
		"deepequal":       {"x = []\ny = []\nfor i in range(100000):\n    x = [x]\n    y = [y]\nx == y", "nests deeper"},
		"deepjson":        {"json.decode('[' * 1000000)", "nests deeper"},
		"wideprint":       {"x = []\nfor i in range(90): x = [x, x]\nprint(x)", "too much work"},
		"widehash":        {"x = ()\nfor i in range(90): x = (x, x)\nd = {x: 1}", "too much work"},
		"widehashset":     {"x = ()\nfor i in range(90): x = (x, x)\nset([x])", "too much work"},
		"widelookup":      {"x = ()\nfor i in range(90): x = (x, x)\nd = {}\nd[x] = 1", "too much work"},
		"widein":          {"x = ()\nfor i in range(90): x = (x, x)\nx in {}", "too much work"},
		"widecompare":     {"x = 1\ny = 1\nfor i in range(9):\n    x = [x] * 1000\n    y = [y] * 1000\nx == y", "too much work"},
		"widesort":        {"def k(n):\n    x = n\n    for i in range(9): x = [x] * 1000\n    return x\nsorted([1, 1], key=k)", "too much work"},
		"widearg":         {"x = 1\nfor i in range(90): x = [x, x]\necho(x=x)", "too much work"},
		"cyclicarg":       {"x = []\nx.append(x)\necho(x=x)", "contains itself"},
		"cyclicprint":     {"x = {}\nx['x'] = x\nprint(x)", "contains itself"},
		"brackets":        {strings.Repeat("(", 30000), "brackets are open"},
		"unaries":         {"x = " + strings.Repeat("-", 60000) + "1", "excessive nesting"},
		"lambdas":         {"x = " + strings.Repeat("lambda:", 9000) + "1", "excessive nesting"},
		"sum":             {"x = 1" + strings.Repeat("+1", 30000), "nests deeper"},
		"elifs":           {"if 0: pass\n" + strings.Repeat("elif 0:pass\n", 5000), "nests deeper"},
		"attributes":      {"x = ''" + strings.Repeat(".a", 30000), "nests deeper"},
		"comparisons":     {"x = " + strings.Repeat("not ", 16000) + "1", "excessive nesting"},
		"tenmegabytes":    {strings.Repeat("x = 1\n", 10<<20/6), "the code is too long"},
		"calls":           {"while True: add(a=1, b=2)", "called too many tools"},
		"waits":           {"h = start(add, a=1)\nwhile True: wait(h)", "waited too often"},
		"messages":        {"while True: message('spam')", "too many messages"},
		"gathermany":      {"gather([call(add, a=1)] * 1000)", "called too many tools"},
		"attemptlimit":    {"def f():\n    while True: pass\nattempt(f)\nprint('on')", "too much work"},
		"attemptmemory":   {"attempt(lambda: 'a' * 1000000000000)\nprint('on')", "too much"},
		"nul":             {"x = \x00", "line 1"},
		"hashtable":       {"d = {}\ni = 0\nwhile True:\n    d[i] = {}\n    i += 1", "too much"},
		"indent":          {"json.indent('[1,2]', indent='x' * 60000000)", "too much memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			resp := runCode(t, d, Limits{Timeout: time.Minute}, Request{Code: c.code})
			if !strings.Contains(resp.Error, c.err) {
				t.Errorf("got %q, want %q", cutText(resp.Error, 500), c.err)
			}
			if len(resp.Error) > 6000 || strings.Contains(resp.Output, "on\n") {
				t.Errorf("got %d bytes of error, output %q", len(resp.Error), resp.Output)
			}
		})
	}
}

func TestHugePrintIsCut(t *testing.T) {
	t.Parallel()
	resp := runCode(t, newDesk(), Limits{Output: 100}, Request{Code: "for i in range(10000): print('zeile', i)\nprint('\u00e4' * 1000)"})
	if len(resp.Output) > 160 || resp.Truncated < 100_000 || !strings.HasPrefix(resp.Output, "zeile 0\n") || !strings.Contains(resp.Output, fmt.Sprintf("... %d bytes cut ...", resp.Truncated)) {
		t.Errorf("got %q, %d cut", resp.Output, resp.Truncated)
	}
}

func TestVariablesAreKeptOrNone(t *testing.T) {
	t.Parallel()
	limits := Limits{StateBytes: 20_000}
	first := runCode(t, newDesk(), limits, Request{Code: "a = 1\nb = list(range(100))"})
	for name, c := range map[string]struct{ code, err string }{
		"large":  {"a = 2\nc = 'x' * 19900\nprint(a)", "with c the variables take more than 20000 bytes (b has "},
		"many":   {"a = 2\n" + manyVariables() + "print(a)", "more than 1000 variables"},
		"failed": {"a = 2\nc = 'x' * 19900\nprint(a)\nfail('mine')", "mine\nwith c the variables take more than 20000 bytes"},
		"ended":  {"a = 2\nc = 'x' * 19900\nprint(a)\nfinish(1)", "all variables are as before this program"},
		"goes":   {"a = 2\nc = 'x' * 19900\nprint(a)\ncontinue_as('on', {'a': 1})", "all variables are as before this program"},
		"seed":   {"print(2)\ncontinue_as('on', {'a': 'x' * 20000})", "continue_as: the seed takes more than 20000 bytes with a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := runCode(t, newDesk(), limits, Request{Code: c.code, State: first.State, AcceptFinish: true})
			if !strings.Contains(resp.Error, c.err) || resp.Output != "2\n" || resp.Finished || resp.Continue != nil {
				t.Errorf("got %+v, want the error %q and nothing else", resp, c.err)
			}
			if resp.Dirty || string(resp.State) != string(first.State) {
				t.Errorf("state: got %s, want %s", resp.State, first.State)
			}
		})
	}
}

func manyVariables() string {
	var b strings.Builder
	for i := range maxVariables + 1 {
		fmt.Fprintf(&b, "v%d=0\n", i)
	}
	return b.String()
}

func TestClockStopsTheProgramOnly(t *testing.T) {
	t.Parallel()
	d := newDesk()
	first := runCode(t, d, Limits{}, Request{Code: "a = 1"})
	resp := runCode(t, d, Limits{Timeout: time.Nanosecond, Steps: 1 << 60}, Request{Code: "a = 2\nwhile True: pass", State: first.State})
	if !strings.Contains(resp.Error, "ran longer than") || resp.Dirty || string(resp.State) != string(first.State) {
		t.Errorf("got %+v", resp)
	}
}

func TestCallerEndsTheRun(t *testing.T) {
	t.Parallel()
	d := newDesk()
	if _, err := Run(t.Context(), Limits{}, Request{Code: "attempt(stops)", Tools: d.infos()}, d); !errors.Is(err, ErrStop) {
		t.Errorf("got %v, want %v", err, ErrStop)
	}
	removed := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	d.tools["add"] = func(map[string]any) (string, error) { cancel(removed); return "", ctx.Err() }
	if _, err := Run(ctx, Limits{}, Request{Code: "attempt(add)\nprint(1)", Tools: d.infos()}, d); !errors.Is(err, removed) {
		t.Errorf("got %v, want %v", err, removed)
	}
	if _, err := Run(ctx, Limits{Steps: 1 << 60}, Request{Code: "while True: pass"}, d); !errors.Is(err, removed) {
		t.Errorf("got %v, want %v", err, removed)
	}
	if _, err := Run(t.Context(), Limits{}, Request{Code: "pass", State: []byte(`{"v":9}`)}, d); err == nil {
		t.Error("an unknown version: got no error")
	}
}
