package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/internal/runtest"

	"go.starlark.net/starlark"
)

// Each of these needs far more than the limits of steps and memory, in one step of the interpreter.
func TestOneStepIsCharged(t *testing.T) {
	t.Parallel()
	const same = "a = 'x' * 1000000 + 'a'\nb = 'x' * 1000000 + 'b'\nl = [a] * 100000\n"
	const floats = "f = [i / 1000000.0 for i in range(300000)]\n" // all have the hash of 0
	for name, code := range map[string]string{
		"index":         same + "l.index(b)",
		"remove":        same + "l.remove(b)",
		"in":            same + "b in l",
		"in_tuple":      same + "b in tuple(l)",
		"sorted":        same + "sorted([a, b] * 50000)",
		"sorted_key":    same + "sorted(range(100000), key=lambda i: [a, b][i % 2])",
		"max":           same + "max([a, b] * 50000)",
		"set_of_long":   same + "set(l)",
		"startswith":    same + "b.startswith(tuple(l))",
		"endswith":      "a = 'a' + 'x' * 1000000\nb = 'b' + 'x' * 1000000\nb.endswith((a,) * 100000)",
		"strip":         "a = '\u00e4' * 500000\nb = 'x' + '\u00f6' * 500000\na.strip(b)",
		"set":           floats + "set(f)",
		"dict":          floats + "dict([(x, 1) for x in f])",
		"dict_update":   floats + "d = {}\nd.update([(x, 1) for x in f])",
		"set_union":     floats + "set([0.5]).union(f)",
		"set_of_shifts": "set([i << 32 for i in range(300000)])",
		"set_of_places": "set([i << 20 for i in range(4000)] + [i << 15 for i in range(130000)])", // hashes differ, places do not
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := runCode(t, newDesk(), Limits{Timeout: time.Hour}, Request{Code: code})
			if !strings.Contains(resp.Error, "too much work") {
				t.Errorf("got %q, want too much work", cutText(resp.Error, 300))
			}
		})
	}
}

// TestLongKeysOfOneTableAreFree expects no charge for keys that do not collide by design.
func TestLongKeysOfOneTableAreFree(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"set(range(200000))", "set(['key-%d' % i for i in range(200000)])", "set([7] * 200000)", "d = dict([(i, i) for i in range(100000)])\nd | d == d\nd = None",
		"json.decode(json.encode([{'id': i, 'name': 'x'} for i in range(20000)]))", "set([i / 2.0 for i in range(100000)])",
	} {
		if resp := runCode(t, newDesk(), Limits{Timeout: time.Hour}, Request{Code: code}); resp.Error != "" {
			t.Errorf("%s: got %q", code, resp.Error)
		}
	}
}

// programs are every function, method and operator of the language with the largest and worst values.
func programs() (list []string) {
	values := map[string]string{
		"text":   "v = 'x' * 1000000 + 'a'\nw = 'x' * 1000000 + 'b'\n",
		"wide":   "v = '\u00e4' * 500000\nw = '\u00e4' * 400000 + '\u00f6'\n",
		"spaces": "v = ' ' * 2000000\nw = ' '\n",
		"bytes":  "v = b'x' * 1000000\nw = b'x' * 999999\n",
		"same":   "a = 'x' * 1000000\nv = [a + 'a'] * 100000\nw = a + 'b'\n",
		"slices": "a = 'x' * 1000000\nv = [a[:i] for i in range(970000, 1000000)]\nw = v[7] + 'b'\n",
		"floats": "v = [i / 1000000.0 for i in range(40000)]\nw = list(v)\n",
		"shifts": "v = [i << 32 for i in range(40000)]\nw = tuple(v)\n",
		"pairs":  "v = [(i / 1000000.0, 1) for i in range(40000)]\nw = {0.5: 1}\n",
		"ints":   "v = 7\nfor i in range(14): v = v * v\nw = [v] * 1000\n",
		"table":  "v = {}\nfor i in range(1500): v[i / 100000.0] = i\nw = dict(v)\n",
		"crowd":  "v = set()\nfor i in range(1500): v.add(i / 100000.0)\nw = set(v)\n",
		"nested": "v = 1\nfor i in range(17): v = [v, v]\nw = [v]\n",
		"json":   "v = '[' + ','.join(['{\"a\":[' + '1,' * 50 + '1]}'] * 3000) + ']'\nw = v + ' '\n",
	}
	receivers := map[string]starlark.Value{
		"text": starlark.String(""), "wide": starlark.String(""), "spaces": starlark.String(""), "bytes": starlark.Bytes(""), "same": starlark.NewList(nil),
		"slices": starlark.NewList(nil), "table": new(starlark.Dict), "crowd": new(starlark.Set),
	}
	for name, setup := range values {
		for fn, v := range starlark.Universe {
			if _, callable := v.(*starlark.Builtin); callable && fn != "fail" && fn != "print" {
				list = append(list, setup+fn+"(v)", setup+fn+"(v, w)")
			}
		}
		for _, fn := range []string{"encode", "decode", "indent"} {
			list = append(list, setup+"json."+fn+"(v)")
		}
		for _, op := range []string{"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "in", "not in", "==", "!=", "<", "<=", ">", ">="} {
			list = append(list, setup+"v "+op+" w", setup+"w "+op+" v")
		}
		list = append(list, setup+"v[::-1]", setup+"v[1:]", setup+"'%s %s' % (v, w)", setup+"'{} {}'.format(v, w)", setup+"print(v)", setup+"{v: w}", setup+"w[0] += v")
		if of, ok := receivers[name].(starlark.HasAttrs); ok {
			for _, method := range of.AttrNames() {
				for _, args := range []string{"", "v", "w", "w, v", "'x', v"} {
					list = append(list, setup+"v."+method+"("+args+")")
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

const boundEnv = "LASH_SANDBOX_BOUND"

// TestLongNoStepOutlivesTheLimit runs programs in a process that is killed at a deadline, because a step cannot be
// stopped. It names the programs that take too long.
func TestLongNoStepOutlivesTheLimit(t *testing.T) {
	if part := os.Getenv(boundEnv); part != "" {
		boundChild(part)
		return
	}
	t.Parallel()
	parts := map[string]time.Duration{"wall": 5 * time.Minute}
	if runtest.Long() {
		parts["all"] = 8 * time.Minute
	}
	for part, deadline := range parts {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLongNoStepOutlivesTheLimit$") //nolint:gosec // this binary
			cmd.Env = append(os.Environ(), boundEnv+"="+part)
			timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), "all ended") {
				t.Errorf("got %v: %s", err, cutText(string(out), 2000))
			}
		})
	}
}

// boundChild ends the process and reports whether each program ended in time.
func boundChild(part string) {
	limits := Limits{Timeout: 2 * time.Second}
	list := programs()
	if part == "wall" { // without other limits one step takes minutes
		limits = Limits{Timeout: time.Second, Steps: 1 << 60, MemoryBytes: 1 << 60}
		list = []string{"f = [i / 1000000.0 for i in range(1000000)]\nset(f)"}
	}
	const margin = 2 * time.Minute // for a machine with other load
	var workers errgroup.Group
	workers.SetLimit(2)
	for _, code := range list {
		workers.Go(func() error {
			began := time.Now()
			resp, err := Run(context.Background(), limits, Request{Code: code}, newDesk())
			took := time.Since(began)
			if took > limits.Timeout+slack+margin || err != nil || part == "wall" && !strings.Contains(resp.Error, "ran longer") {
				fmt.Printf("%s\ntook %v: %v, %s\n", cutText(code, 300), took, err, cutText(resp.Error, 300))
				os.Exit(1)
			}
			if took > limits.Timeout {
				fmt.Printf("note: %s took %v\n", cutText(code, 300), took)
			}
			return nil
		})
	}
	_ = workers.Wait() // a failure ends the process
	fmt.Println(len(list), "all ended")
	os.Exit(9) // a test may not exit with 0
}
