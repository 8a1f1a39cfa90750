package sandbox

import (
	"errors"
	"flag"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"go.starlark.net/starlark"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/internal/runtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestStateGolden fixes the encoding: the state of every golden file stays readable.
func TestStateGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/state/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			runtest.NoError(t, err)
			resp := runCode(t, newDesk(), Limits{}, Request{Code: string(archive.Files[0].Data)})
			if resp.Error != "" {
				t.Fatal(resp.Error)
			}
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "state.json", Data: append(resp.State, '\n')})
				runtest.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			want := strings.TrimSpace(string(archive.Files[1].Data))
			if string(resp.State) != want {
				t.Errorf("got\n%s, want\n%s", resp.State, want)
			}
			again := runCode(t, newDesk(), Limits{}, Request{Code: "pass", State: []byte(want)})
			if again.Dirty || again.Error != "" {
				t.Errorf("restored: got %s, %q", again.State, again.Error)
			}
		})
	}
}

func noSource(*starlark.Function) (wireFunction, bool) { return wireFunction{}, false }

// genValue draws values. It may return an earlier one again, so that values are shared.
func genValue(rt *rapid.T, pool *[]starlark.Value, depth int, hashable bool) starlark.Value {
	kinds := []string{"none", "bool", "int", "big", "float", "string", "bytes", "handle", "long"}
	if depth > 0 {
		kinds = append(kinds, "tuple", "tuple")
		if !hashable {
			kinds = append(kinds, "list", "dict", "set", "again", "outcome")
		}
	}
	n := func() int { return rapid.IntRange(0, 4).Draw(rt, "n") }
	switch rapid.SampledFrom(kinds).Draw(rt, "kind") {
	case "bool":
		return starlark.Bool(rapid.Bool().Draw(rt, "bool"))
	case "int":
		return starlark.MakeInt64(rapid.Int64().Draw(rt, "int"))
	case "big":
		i := new(big.Int).Lsh(big.NewInt(rapid.Int64().Draw(rt, "big")), rapid.UintRange(0, 300).Draw(rt, "shift"))
		return starlark.MakeBigInt(i)
	case "float":
		return starlark.Float(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), 1.5, 1e300, rapid.Float64().Draw(rt, "f")}).Draw(rt, "float"))
	case "string":
		return starlark.String(rapid.SliceOf(rapid.Byte()).Draw(rt, "string"))
	case "long":
		return starlark.String(strings.Repeat(rapid.StringN(1, 4, 8).Draw(rt, "unit"), 70))
	case "bytes":
		return starlark.Bytes(rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"))
	case "handle":
		return handle{id: rapid.String().Draw(rt, "id"), tool: "t"}
	case "tuple":
		t := make(starlark.Tuple, n())
		for i := range t {
			t[i] = genValue(rt, pool, depth-1, hashable)
		}
		return t
	case "list":
		l := starlark.NewList(nil)
		*pool = append(*pool, l)
		for range n() {
			_ = l.Append(genValue(rt, pool, depth-1, false))
		}
		return l
	case "dict":
		d := new(starlark.Dict)
		*pool = append(*pool, d)
		for range n() {
			_ = d.SetKey(genValue(rt, pool, depth-1, true), genValue(rt, pool, depth-1, false))
		}
		return d
	case "set":
		s := new(starlark.Set)
		*pool = append(*pool, s)
		for range n() {
			_ = s.Insert(genValue(rt, pool, depth-1, true))
		}
		return s
	case "outcome":
		return &outcome{ok: true, value: genValue(rt, pool, depth-1, false), message: rapid.StringMatching(`[a-z]*`).Draw(rt, "message")}
	case "again":
		if len(*pool) > 0 {
			return rapid.SampledFrom(*pool).Draw(rt, "again")
		}
	}
	return starlark.None
}

// isomorphic compares graphs: kinds, values, order and sharing.
func isomorphic(x, y starlark.Value, seen map[starlark.Value]starlark.Value) bool {
	if x.Type() != y.Type() {
		return false
	}
	all := func(xs, ys []starlark.Value) bool {
		return slices.EqualFunc(xs, ys, func(x, y starlark.Value) bool { return isomorphic(x, y, seen) })
	}
	switch x.(type) {
	case *starlark.List, *starlark.Dict, *starlark.Set, *outcome:
		if twin, ok := seen[x]; ok {
			return twin == y
		}
		seen[x] = y
	}
	switch x := x.(type) {
	case starlark.Tuple:
		return all(x, y.(starlark.Tuple))
	case *starlark.List:
		return all(slices.Collect(x.Elements()), slices.Collect(y.(*starlark.List).Elements()))
	case *starlark.Set:
		return all(slices.Collect(x.Elements()), slices.Collect(y.(*starlark.Set).Elements()))
	case *starlark.Dict:
		return slices.EqualFunc(x.Items(), y.(*starlark.Dict).Items(), func(x, y starlark.Tuple) bool { return all(x, y) })
	case *outcome:
		y := y.(*outcome)
		return x.ok == y.ok && x.message == y.message && isomorphic(x.value, y.value, seen)
	case starlark.Float:
		return math.Float64bits(float64(x)) == math.Float64bits(float64(y.(starlark.Float)))
	}
	ok, err := starlark.Equal(x, y)
	return ok && err == nil
}

func TestStateSavesWhatItRestores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var pool []starlark.Value
		a, b := genValue(rt, &pool, 5, false), genValue(rt, &pool, 5, false)
		encode := func(a, b starlark.Value) []byte {
			enc := newEncoder(1<<20, noSource)
			errA, errB := enc.add("a", a), enc.add("b", b)
			data, err := enc.finish()
			if err := errors.Join(errA, errB, err); err != nil {
				rt.Fatalf("encode: %v", err)
			}
			return data
		}
		data := encode(a, b)
		if again := encode(a, b); string(again) != string(data) {
			rt.Fatalf("twice: got %s, want %s", again, data)
		}
		d, err := decodeState(data)
		if err != nil {
			rt.Fatalf("decode %s: %v", data, err)
		}
		if err := d.fill(); err != nil {
			rt.Fatalf("fill %s: %v", data, err)
		}
		ra, _, errA := d.value(d.wire.Vars["a"])
		rb, _, errB := d.value(d.wire.Vars["b"])
		if errA != nil || errB != nil {
			rt.Fatalf("values: %v, %v", errA, errB)
		}
		seen := make(map[starlark.Value]starlark.Value)
		if !isomorphic(a, ra, seen) || !isomorphic(b, rb, seen) {
			rt.Fatalf("restored from %s: not the same", data)
		}
		if again := encode(ra, rb); string(again) != string(data) {
			rt.Fatalf("restored: got %s, want %s", again, data)
		}
	})
}

func TestHandles(t *testing.T) {
	t.Parallel()
	code := "a = start(add)\nb = [start(add), (a,)]\nc = {'__handle__': 'task', 'id': 'no', 'tool': 'x'}\nd = {start(add): 1}\ndef f(x=start(add)): return x\ng = start(add)\ng = 1"
	resp := runProcess(t, newDesk(), Limits{}, Request{Code: code})
	ids, err := Handles(resp.State)
	if want := []string{"t0", "t1", "t2", "t3"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("got %v, %v, want %v; state %s", ids, err, want, resp.State)
	}
	if ids, err := Handles(nil); err != nil || len(ids) > 0 {
		t.Errorf("no state: got %v, %v", ids, err)
	}
	if _, err := Handles([]byte("x")); err == nil {
		t.Error("not a state: got no error")
	}
}

func fuzzLimits() Limits {
	return Limits{Steps: 20_000, MemoryBytes: 16 << 20, Code: 4096, Output: 512, Timeout: 5 * time.Second, Calls: 5, StateBytes: 4096}
}

func checkBounds(t *testing.T, resp Response, limits Limits) {
	t.Helper()
	if int64(len(resp.Output)) > 3*limits.Output+100 || resp.Calls > limits.Calls || resp.Steps > limits.Steps || len(resp.Error) > 10_000 {
		t.Errorf("beyond its bounds: %d bytes of output, %d calls, %d steps, %d bytes of error", len(resp.Output), resp.Calls, resp.Steps, len(resp.Error))
	}
}

func FuzzRun(f *testing.F) {
	for _, seed := range []string{
		"x = [add(a=1, b=2)]\nprint(x)", "def f(a, b=[1]):\n  return a\ny = f\nfinish(y(2))", "x = {}\nx['a'] = x\nprint(len(x))",
		"s = 'a'\nwhile True:\n    s += s", "t = ()\nfor i in range(50): t = (t, t)\nd = {t: 1}", "f = [lambda x=1: x]\nh = start(add)\nwait(h)",
		"r = attempt(broken)\nm = gather([call(add, a=1)], attempt=True)", "print('%s %d' % ('a', 3), '{}'.format([1]), json.encode({'a': 1}))",
		"a, (b, c) = 1, [2, 3]\na -= b * c // 2 % 5 << 2", "x = [i for i in range(10) if i not in [1, 2]][::-2]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		d := newDesk()
		limits := fuzzLimits()
		first := runProcess(t, d, limits, Request{Code: code, AcceptFinish: true})
		checkBounds(t, first, limits)
		if strings.Contains(first.Error, "internal error") && !strings.Contains(code, "panics") && !strings.Contains(code, "internal") {
			t.Errorf("got %q", first.Error)
		}
		if int64(len(first.State)) > limits.StateBytes {
			t.Errorf("got %d bytes of state", len(first.State))
		}
		if strings.Contains(first.Error, "ran longer") || strings.Contains(first.Error, "memory limit") {
			return
		}
		again := newDesk()
		again.results = d.results
		second := runProcess(t, again, limits, Request{Code: code, AcceptFinish: true})
		if first.Output != second.Output || first.Error != second.Error || first.Steps != second.Steps || string(first.State) != string(second.State) {
			t.Errorf("rerun: got %+v, want %+v", second, first)
		}
		// What was saved can be read, and is saved again as it was.
		limits.Steps *= 10
		third := runProcess(t, newDesk(), limits, Request{Code: "pass", State: first.State})
		if third.Error == "" && third.Dirty {
			t.Errorf("restored: got\n%s, want\n%s", third.State, first.State)
		}
	})
}

func FuzzState(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"vars":{"a":{"r":0}},"heap":[{"list":[1,{"r":0},{"f":"nan"},{"t":[]}]}]}`,
		`{"v":1,"vars":{"f":{"r":0}},"heap":[{"fn":{"name":"f","src":"def f(x): return x","free":[{"name":"y","value":{"r":1}}]}},{"tuple":[{"r":0}]}]}`,
		`{"v":1,"vars":{"t":{"r":0}},"heap":[{"tuple":[{"r":0}]},{"dict":[[{"r":0},1]]},{"set":[{"range":[0,1,0]}]}]}`,
		`{"v":1,"vars":{"x":{"__handle__":"task","id":"1","tool":"t"}},"heap":[{"outcome":[true,1,""]},{"fn":{"name":"lambda","lambda":true,"src":"lambda: 1"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		_, _ = Handles(state)
		limits := fuzzLimits()
		resp, err := here().run(t.Context(), limits, Request{Code: "x = 1", State: state}, newDesk())
		if err == nil {
			checkBounds(t, resp, limits)
			if strings.Contains(resp.Error, "internal error") {
				t.Errorf("got %q", resp.Error)
			}
		}
	})
}
