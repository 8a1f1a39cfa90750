package sandbox

import (
	"strings"
	"testing"
)

func TestContinueAs(t *testing.T) {
	t.Parallel()
	first := runProcess(t, newDesk(), Limits{}, Request{AcceptFinish: true, Code: `
x = [1]
h = start(add, a=1, b=2)
def twice(n): return n * 2
continue_as("go on", {"y": x, "twice": twice, "x": x, "h": h})
print("never")`})
	next := first.Continue
	if next == nil || next.Task != "go on" || strings.Join(next.Names, " ") != "h twice x y" || first.Error != "" || first.Output != "" || first.Finished {
		t.Fatalf("continue: got %+v of %+v", next, first)
	}
	if handles, err := Handles(next.State); err != nil || len(handles) != 1 {
		t.Errorf("handles: got %v, %v", handles, err)
	}
	second := runProcess(t, newDesk(), Limits{}, Request{State: next.State, Code: "y.append(twice(2))\nprint(x)"})
	if second.Output != "[1, 4]\n" || second.Error != "" {
		t.Errorf("seeded program: got %q %q", second.Output, second.Error)
	}
}

func TestContinueAsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, want string }{
		"no_task":  {`continue_as(" ")`, "say in the task"},
		"bad_name": {`continue_as("t", {"a b": 1})`, "cannot be the name"},
		"builtin":  {`continue_as("t", {"tool": 1})`, "cannot be the name"},
		"cannot":   {`continue_as("t", {"a": call("add", a=1)})`, "seed: a:"},
		"kwargs":   {`continue_as("t", 1, 2)`, "write continue_as("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCode(t, newDesk(), Limits{}, Request{AcceptFinish: true, Code: c.code})
			if got.Continue != nil || !strings.Contains(got.Error, c.want) {
				t.Errorf("error: got %q, want %q", got.Error, c.want)
			}
		})
	}
}
