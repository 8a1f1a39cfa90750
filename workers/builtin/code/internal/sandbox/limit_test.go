package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/memory"
)

// Programs that take memory, in many steps and in one, with what 16 MiB do not hold.
var bombs = map[string]string{
	"doubling text":    "s = 'a'\nwhile True: s = s + s",
	"doubling list":    "s = [0]\nwhile True: s = s + s",
	"extended list":    "s = [1]\nwhile True: s.extend(s)",
	"element":          "d = {'s': 'ab'}\nwhile True: d['s'] += d['s']",
	"collected":        "s = []\nwhile True: s.append('a' * 100000 + 'b')",
	"repeated text":    "s = 'a' * ((1 << 30) - 1)",
	"repeated list":    "s = [0] * ((1 << 30) - 1)",
	"list of a range":  "list(range(1000000000000))",
	"sorted range":     "sorted(range(100000000))",
	"zip":              "zip(*[range(1000000)] * 100)",
	"replaced text":    "('a' * 1000000).replace('a', 'b' * 1000)",
	"joined text":      "('a' * 1000000).join(['b'] * 1000)",
	"formatted text":   "('{0}' * 100000).format('b' * 100000)",
	"percent":          "('%s' * 10000) % tuple(['b' * 100000] * 10000)",
	"nested print":     "x = []\nfor i in range(90): x = [x, x]\nprint(x)",
	"nested argument":  "x = 1\nfor i in range(90): x = [x, x]\necho(x=x)",
	"indented JSON":    "json.indent('[1,2]', indent='x' * 60000000)",
	"deep hash":        "x = ()\nfor i in range(1000000): x = (x,)\n{x: 1}",
	"attempted":        "attempt(lambda: [0] * (1 << 29))\nprint('on')",
	"in a function":    "def f():\n    s = [0]\n    while True: s += s\nf()",
	"a large result":   "x = large()",
	"a large variable": "x = [str(i) for i in range(300000)]",
}

// TestSizedMemoryIsLimited expects the same error of each, the variables as before, and what was printed and called before.
func TestSizedMemoryIsLimited(t *testing.T) {
	t.Parallel()
	list := bombs
	if !runtest.Long() {
		list = map[string]string{"doubling list": bombs["doubling list"], "repeated list": bombs["repeated list"], "deep hash": bombs["deep hash"]}
	}
	limits := Limits{MemoryBytes: 16 << 20, Timeout: 10 * time.Minute}
	for name, code := range list {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			d.tools["large"] = func(map[string]any) (string, error) { return strings.Repeat("[1],", 5_000_000), nil }
			first := runProcess(t, d, limits, Request{Code: "kept = 1"})
			resp := runProcess(t, d, limits, Request{Code: "kept = 2\nprint(add(a=1, b=2))\n" + code + "\nprint('on')", State: first.State})
			const want = "the program went beyond its memory limit (16777216 bytes); the variables are as before it; keep less at once"
			if resp.Error != want || resp.Output != "3\n" || resp.Dirty || string(resp.State) != string(first.State) || resp.Finished || resp.Calls < 1 {
				t.Errorf("got %.500q, output %q, %d calls, state %s, want %q", resp.Error, resp.Output, resp.Calls, resp.State, want)
			}
			if next := runProcess(t, d, limits, Request{Code: "print(kept)", State: resp.State}); next.Output != "1\n" {
				t.Errorf("next: got %+v", next)
			}
		})
	}
}

// TestMemoryIsThatOfOneProgram has one program wait for a tool until another one has gone beyond its memory.
func TestMemoryIsThatOfOneProgram(t *testing.T) {
	t.Parallel()
	d, waits, ended := newDesk(), make(chan struct{}), make(chan struct{})
	d.tools["hold"] = func(map[string]any) (string, error) {
		close(waits)
		<-ended
		return "1", nil
	}
	go func() {
		defer close(ended)
		<-waits
		resp, err := Run(t.Context(), Limits{MemoryBytes: 1 << 20}, Request{Code: "[0] * (1 << 29)"}, newDesk())
		if err != nil || !strings.Contains(resp.Error, "memory limit") {
			t.Errorf("the other: got %+v, %v", resp, err)
		}
	}()
	resp := runProcess(t, d, Limits{}, Request{Code: "x = list(range(1000))\nprint(hold() + len(x))"})
	if resp.Error != "" || resp.Output != "1001\n" {
		t.Errorf("got %+v", resp)
	}
}

// watched is a desk that looks at the memory of all programs whenever a program sends a message.
type watched struct {
	*desk
	pool *memory.Pool
	free []string // sessions that can have 16 MiB more, at each message
}

func (w *watched) Message(string, string) {
	w.free = append(w.free, strings.Join(freeFor(w.pool), " "))
}

// freeFor are those of the sessions a, b and c that can have 16 MiB at once.
func freeFor(p *memory.Pool) (list []string) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, session := range []string{"a", "b", "c"} {
		if give, err := p.Take(ended, session, 16<<20); err == nil {
			defer give()
			list = append(list, session)
		}
	}
	return list
}

// TestMemoryOfAllPrograms: a program that computes has memory of its session's share, and none while it waits for a tool, or after its end.
func TestMemoryOfAllPrograms(t *testing.T) {
	t.Parallel()
	w := &watched{desk: newDesk(), pool: memory.NewPool(32<<20, 16<<20)}
	w.tools["look"] = func(map[string]any) (string, error) { w.Message("", ""); return "1", nil }
	limits := Limits{MemoryBytes: 16 << 20, Memory: w.pool}
	resp, err := Run(t.Context(), limits, Request{Code: "message('m')\nlook()\nmessage('m')", Session: "a", Tools: w.names()}, w)
	if w.Message("", ""); err != nil || resp.Error != "" || !slices.Equal(w.free, []string{"b", "a b", "b", "a b"}) {
		t.Errorf("got %+v, %v, and free memory for %q", resp, err, w.free)
	}
}

// TestMemoryIsNotOfWaiting has two programs wait for a program each, where there is memory for two.
func TestMemoryIsNotOfWaiting(t *testing.T) {
	t.Parallel()
	limits := Limits{MemoryBytes: 16 << 20, Memory: memory.NewPool(32<<20, 16<<20), Timeout: 10 * time.Minute}
	var waits sync.WaitGroup
	var programs errgroup.Group
	waits.Add(2)
	for i := range 2 {
		programs.Go(func() error {
			d := newDesk()
			d.tools["agent"] = func(map[string]any) (string, error) {
				waits.Done()
				waits.Wait()
				resp, err := Run(t.Context(), limits, Request{Code: "print(2)", Session: fmt.Sprint("agent of ", i)}, newDesk())
				return strings.TrimSpace(resp.Output + resp.Error), err
			}
			resp, err := Run(t.Context(), limits, Request{Code: "print(agent() + 1)", Session: fmt.Sprint(i), Tools: d.names()}, d)
			if resp.Output != "3\n" || resp.Error != "" {
				t.Errorf("got %+v", resp)
			}
			return err
		})
	}
	runtest.WantError(t, "wait", programs.Wait(), nil)
}

// TestMemoryIsOfOthers: a program waits for memory for some time, and then fails with the variables as before.
func TestMemoryIsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{MemoryBytes: 16 << 20, Memory: memory.NewPool(16<<20, 16<<20)}
		give, err := limits.Memory.Take(t.Context(), "b", 1<<20)
		runtest.NoError(t, err)
		defer give()
		resp, err := Run(t.Context(), limits, Request{Code: "print(1)", State: []byte(`{"v":9}`)}, newDesk())
		if want := limits.noMemory(); err != nil || resp.Error != want || string(resp.State) != `{"v":9}` || resp.Output != "" {
			t.Errorf("got %+v, %v, want %q", resp, err, want)
		}
		ended := errors.New("ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(ended) })
		_, err = Run(ctx, limits, Request{Code: "print(1)"}, newDesk())
		runtest.WantError(t, "at the end of the turn", err, ended)
	})
}

// TestLimitAboveTheShare: a program runs with the share of its session where its limit is larger.
func TestLimitAboveTheShare(t *testing.T) {
	t.Parallel()
	limits := Limits{MemoryBytes: 1 << 40, Memory: memory.NewPool(32<<20, 16<<20), Timeout: 10 * time.Minute}
	for code, want := range map[string]string{"print(1)": "", bombs["repeated list"]: "the program went beyond its memory limit (16777216 bytes)"} {
		if resp := runProcess(t, newDesk(), limits, Request{Code: code}); !strings.HasPrefix(resp.Error, want) || (want == "") != (resp.Output == "1\n") {
			t.Errorf("%s: got %+v, want the error %q", code, resp, want)
		}
	}
}

// TestMemoryOfTheExecutableIsFree has a limit of about what the process has before its program.
func TestMemoryOfTheExecutableIsFree(t *testing.T) {
	t.Parallel()
	resp := runProcess(t, newDesk(), Limits{MemoryBytes: 4 << 20, Timeout: 10 * time.Minute}, Request{Code: "x = [add(a=i, b=i) for i in range(100)]\nprint('on')"})
	if resp.Error != "" || resp.Output != "on\n" {
		t.Errorf("got %+v", resp)
	}
}

// TestFreedMemoryIsFree makes far more garbage than the limit.
func TestFreedMemoryIsFree(t *testing.T) {
	t.Parallel()
	resp := runProcess(t, newDesk(), Limits{MemoryBytes: 16 << 20, Timeout: 10 * time.Minute}, Request{Code: "for i in range(100): x = 'a' * 1000000\nx = None\nprint('on')"})
	if resp.Error != "" || resp.Output != "on\n" {
		t.Errorf("got %+v", resp)
	}
}

func TestHostileProgramsEnd(t *testing.T) {
	t.Parallel()
	const wide = "x = ()\nfor i in range(90): x = (x, x)\n"
	for name, c := range map[string]struct{ code, err string }{
		"loop":         {"while True: pass", "too much work (limit 5000000 steps)"},
		"nested loop":  {"for i in range(10000000000):\n    for j in range(10000000000): pass", "too much work"},
		"attempted":    {"def f():\n    while True: pass\nattempt(f)\nprint('on')", "too much work"},
		"table":        {"d = {}\ni = 0\nwhile True:\n    d[i % 1000] = i\n    i += 1", "too much work"},
		"repeat":       {"x = 1000000000000 * 'ab'", "repeat count 1000000000000 too large"},
		"cyclic":       {"x = []\nx.append(x)\necho(x=x)", "cycle in JSON"},
		"brackets":     {strings.Repeat("(", 30000), "excessive nesting"},
		"unaries":      {"x = " + strings.Repeat("-", 60000) + "1", "excessive nesting"},
		"lambdas":      {"x = " + strings.Repeat("lambda:", 9000) + "1", "excessive nesting"},
		"nots":         {"x = " + strings.Repeat("not ", 16000) + "1", "excessive nesting"},
		"attributes":   {"x = ''" + strings.Repeat(".a", 30000), "has no .a"},
		"sum":          {"x = 1" + strings.Repeat("+1", 30000) + "\nfail(x)", "fail: 30001"},
		"elifs":        {"if 0: pass\n" + strings.Repeat("elif 0:pass\n", 5000) + "fail('end')", "fail: end"},
		"megabytes":    {strings.Repeat("x = 1\n", 10<<20/6), "the code is too long"},
		"calls":        {"while True: add(a=1, b=2)", "called too many tools"},
		"waits":        {"h = start(add, a=1)\nwhile True: wait(h)", "waited too often"},
		"messages":     {"while True: message('spam')", "too many messages"},
		"gather":       {"gather([call(add, a=1)] * 1000)", "called too many tools"},
		"nul":          {"x = \x00", "line 1"},
		"hash":         {wide + "d = {x: 1}", "ran longer"},
		"hash in":      {wide + "x in {}", "ran longer"},
		"collisions":   {"f = [i / 1000000.0 for i in range(300000)]\nset(f)", "ran longer"},
		"integer":      {"x = 3\nwhile True: x = x * x", ""},
		"cyclic print": {"x = {}\nx['x'] = x\nfail(x)", "{...}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := Limits{Timeout: 10 * time.Minute}
			if c.err == "ran longer" || c.err == "" { // by time or memory
				limits.Timeout = time.Second
			}
			resp := runProcess(t, newDesk(), limits, Request{Code: c.code})
			if resp.Error == "" || !strings.Contains(resp.Error, c.err) {
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
	resp := runProcess(t, newDesk(), Limits{Output: 100}, Request{Code: "for i in range(10000): print('zeile', i)\nprint('\u00e4' * 1000)"})
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
	first := runProcess(t, d, Limits{}, Request{Code: "a = 1"})
	resp := runProcess(t, d, Limits{Timeout: time.Nanosecond, Steps: 1 << 60}, Request{Code: "a = 2\nwhile True: pass", State: first.State})
	if !strings.Contains(resp.Error, "ran longer than") || resp.Dirty || string(resp.State) != string(first.State) {
		t.Errorf("got %+v", resp)
	}
}

func TestCallerEndsTheRun(t *testing.T) {
	t.Parallel()
	d := newDesk()
	_, err := Run(t.Context(), Limits{}, Request{Code: "attempt(stops)", Tools: d.names()}, d)
	runtest.WantError(t, "run", err, ErrStop)
	removed := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	d.tools["add"] = func(map[string]any) (string, error) { cancel(removed); return "", ctx.Err() }
	_, err = Run(ctx, Limits{}, Request{Code: "attempt(add)\nprint(1)", Tools: d.names()}, d)
	runtest.WantError(t, "run", err, removed)
	_, err = Run(ctx, Limits{Steps: 1 << 60}, Request{Code: "while True: pass"}, d)
	runtest.WantError(t, "run", err, removed)
	if _, err := Run(t.Context(), Limits{}, Request{Code: "pass", State: []byte(`{"v":9}`)}, d); err == nil {
		t.Error("an unknown version: got no error")
	}
}
