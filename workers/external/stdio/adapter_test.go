package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/stdio"
)

// TestCalls has one child serve calls at once, with output and a request, and a hook during a call.
func TestCalls(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	if m := b.Manifest(); m.Version != "1" || len(m.Tools) != 2 || b.ID() != "notes" {
		t.Fatalf("manifest: got %+v", m)
	}
	var all sync.WaitGroup
	on := new(caller)
	for n := range 50 {
		all.Go(func() {
			if got := b.callOn(t.Context(), on, "s", fmt.Sprint("c", n), "echo", fmt.Sprintf(`{"do":"held","text":"%d"}`, n)); got == nil || got.Text != strconv.Itoa(n) {
				t.Errorf("call %d: got %+v", n, got)
			}
		})
	}
	bustest.Eventually(t, "all calls run", func() bool {
		on.mu.Lock()
		defer on.mu.Unlock()
		return len(on.outputs) == 50
	})
	r := b.Hook(t.Context(), &wire.HookCall{Hook: "h", Point: "before_turn", Invocation: "i", Session: "s", DeadlineMS: 60_000})
	if r.Error != nil || len(r.Directives) != 1 || r.Directives[0].Code != "by h" {
		t.Errorf("hook: got %+v", r)
	}
	b.text("s", "release", `{"do":"release"}`)
	all.Wait()
	on = new(caller)
	o := b.callOn(t.Context(), on, "s", "ask", "echo", `{"do":"ask"}`)
	if o.Text != `200 {"sessions":[]}` || !slices.Equal(on.outputs, []string{" began", "stderr asking"}) || !slices.Equal(on.asked, []string{"q GET /v1/sessions"}) {
		t.Errorf("got %+v, outputs %q, requests %q", o, on.outputs, on.asked)
	}
	b.await("it runs")
}

// TestEnvironment gives the program PATH and the named variables only, in its directory, below the sandbox.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	var dir string
	b := start(t, "", func(c *stdio.Config) {
		dir = c.Dir
		c.Sandbox = []string{"env", "BOX={cwd}/box"}
	})
	want := []string{"BOX=" + dir + "/box", "GORACE=atexit_sleep_ms=0", "LASH_TEST_SCOPE=", "PATH=" + os.Getenv("PATH")}
	for n, when := range []string{"first child", "child after a kill"} {
		got := strings.Split(b.text("s", when, `{"do":"env"}`), "\n")
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
		b.kill9("s", "kill after "+when)
		b.awaitEnds(n + 1)
	}
}

// kill9 kills the child of a session.
func (b *bundle) kill9(session, id string) (pid int) {
	b.t.Helper()
	pid, err := strconv.Atoi(b.text(session, id, `{"do":"pid"}`))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return pid
}

// TestDeadChild ends the running calls of a child that is killed, by what the tools declare. The next call has a child.
func TestDeadChild(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	repeatable, once := b.begin(t.Context(), "echo", "hang"), b.begin(t.Context(), "once", "hang")
	first := b.kill9("s", "pid")
	if o := <-repeatable; o == nil || o.Failure == nil || o.Failure.Class != "external" || !o.Failure.Safe || !strings.Contains(o.Failure.Message, "signal") {
		t.Errorf("repeatable call: got %+v, want an external failure that names the signal", o)
	}
	if o := <-once; o != nil {
		t.Errorf("call that must not run twice: got %+v, want no outcome", o)
	}
	only := &wire.Call{CallID: wire.CallID{Session: "s", Call: "tightened"}, Tool: "echo", Args: json.RawMessage(`{"do":"die"}`), Once: true}
	if o := b.Call(t.Context(), only, new(caller)); o != nil {
		t.Errorf("call of a repeatable tool that must not run twice: got %+v, want no outcome", o)
	}
	if second := b.text("s", "after", `{"do":"pid"}`); second == strconv.Itoa(first) {
		t.Errorf("after the kill: got pid %s again", second)
	}
	if o := b.call(t.Context(), "s", "exits", "echo", `{"do":"die"}`); o.Failure == nil || !strings.Contains(o.Failure.Message, "exit status 7") {
		t.Errorf("child that exits: got %+v, want its exit status", o)
	}
}

// TestCancel kills a child that does not answer a cancel, with what it started, once no other call runs in it.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	pid, _ := strconv.Atoi(b.text("s", "pid", `{"do":"pid"}`))
	other := b.begin(t.Context(), "echo", "held")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled := b.begin(ctx, "once", "sleep")
	cancel(&remote.Cancelled{Cancel: wire.Cancel{CallID: wire.CallID{Session: "s", Call: "sleeponce"}, GraceMS: 2}})
	b.await("a cancel of")
	b.text("s", "release", `{"do":"release"}`)
	if o := <-other; o == nil || o.Text != "held" {
		t.Errorf("the other call: got %+v, want it served before the kill", o)
	}
	o := <-cancelled
	if o == nil || !o.Cancelled || !strings.Contains(o.Text, "did not answer a cancel") {
		t.Errorf("got %+v, want it cancelled", o)
	}
	waitGone(t, pid) // later: dead processes are in the group until init reads their status
}

// TestHostile ends programs that break the protocol, and names the reason.
func TestHostile(t *testing.T) {
	t.Parallel()
	const registered = `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[]}}'; `
	for name, c := range map[string]struct{ script, want string }{
		"ends":                {"exit 4", "exit status 4"},
		"says_nothing":        {"sleep 60", "no register line within 300ms"},
		"ignores_TERM":        {"trap '' TERM; sleep 60 & while :; do wait; done", "no register line within 300ms"},
		"closes_its_output":   {"exec >&-; sleep 60", "no register line within 300ms"},
		"garbage":             {"echo hello; sleep 60", `no JSON line: "hello`},
		"other_first_line":    {`echo '{"type":"placed"}'; sleep 60`, "register is the first line"},
		"wrong_form":          {`echo '{"type":"register","manifest":7}'; sleep 60`, "a register line of its output is wrong"},
		"other_protocol":      {strings.ReplaceAll(registered, `"protocol":1`, `"protocol":2`) + "sleep 60", "protocol: is 2, want 1"},
		"invalid_manifest":    {strings.ReplaceAll(registered, `"1"`, `""`) + "sleep 60", "manifest.version"},
		"line_without_an_end": {"head -c 40000000 /dev/zero; sleep 60", "longer than 33558528 bytes"},
		"no_such_program":     {"", "/no/such/program"},
		"sandbox_that_fails":  {"exit 0", "exit status 1"},
		"leaves_its_group":    {"setsid sleep 5 & exit 4", "exit status 4"}, // with its output open
		"deep_register":       {`echo '{"type":"register","manifest":'$(printf '%05000d' 0 | tr 0 '['); sleep 60`, "no JSON line"},
		"too_deep":            {`n=$(printf '%0200d' 0); echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"a","schema":'$(echo $n | tr 0 '[')$(echo $n | tr 0 ']')'}]}}'; sleep 60`, "a register line of its output is wrong"},
		"no_text":             {`printf '\377\376{"type":"register"}\n'; sleep 60`, "no JSON line"},
		"flood":               {"yes", `no JSON line: "y`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", c.script}, RegisterWait: time.Minute}
			if strings.Contains(c.want, "300ms") {
				cfg.RegisterWait = 300 * time.Millisecond
			}
			if name == "sandbox_that_fails" {
				cfg.Sandbox = []string{"false"}
			}
			if c.script == "" {
				cfg.Command = []string{"/no/such/program"}
			}
			a, err := stdio.New(t.Context(), cfg)
			if err == nil {
				a.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestHostileLater ends a registered program that breaks the protocol during a call. The call fails with the reason.
func TestHostileLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"garbage":        {"echo hello", "no JSON line"},
		"unknown_type":   {`echo '{"type":"other"}'`, `type \"other\"`},
		"register_again": {"$register", "register is the first line"},
		"closed_output":  {"exec >&-", "it closed its output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			register := `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"echo","effects":"none"}]}}'`
			script := register + "; read -r init; read -r call; " + strings.ReplaceAll(c.script, "$register", register) + "; sleep 60"
			a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			b := &bundle{Adapter: a, t: t}
			o := b.call(t.Context(), "s", "c", "echo", `{}`)
			if o == nil || o.Failure == nil || !strings.Contains(fmt.Sprintf("%q", o.Failure.Message), c.want) {
				t.Errorf("got %+v, want %q", o, c.want)
			}
		})
	}
}

// TestAnotherManifest refuses a child that registers another manifest than the first one.
func TestAnotherManifest(t *testing.T) {
	t.Parallel()
	script := `n=$(cat n 2>/dev/null); echo "$n"1 >n; echo '{"type":"register","protocol":1,"manifest":{"version":"1'$n'","tools":[{"name":"echo","effects":"none"}]}}'; read -r init; read -r call`
	a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := &bundle{Adapter: a, t: t}
	for n, want := range []string{"ended during the call", "another manifest"} {
		if o := b.call(t.Context(), "s", fmt.Sprint("c", n), "echo", `{}`); o == nil || o.Failure == nil || !strings.Contains(o.Failure.Message, want) {
			t.Errorf("call %d: got %+v, want %q", n, o, want)
		}
	}
}

// TestLongUnreadInput kills a child that does not read its input.
func TestLongUnreadInput(t *testing.T) {
	t.Parallel()
	script := `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"echo","effects":"none"}]}}'; sleep 60`
	a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, text := &bundle{Adapter: a, t: t}, strings.Repeat("x", wire.MaxArgsBytes)
	var all sync.WaitGroup
	for n := range 96 { // together they fill the queue
		all.Go(func() {
			o := b.call(t.Context(), "s", fmt.Sprint("c", n), "echo", `{"text":"`+text+`"}`)
			if o == nil || o.Failure == nil {
				t.Errorf("call %d: got %+v, want a failure", n, o)
			}
		})
	}
	all.Wait()
}

// session starts a session.
// TestRefusedCallback has callbacks that the instance refuses before it sends them, and ones that no node answers.
func TestRefusedCallback(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	for want, err := range map[string]error{
		"400 ": &events.FieldError{Field: "id", Reason: "is twice", Err: events.ErrInvalid},
		"413 ": &events.FieldError{Field: "body", Reason: "is large", Err: events.ErrTooLarge},
		"413":  &wire.Error{Code: wire.CodeTooLarge, Message: "the message"},
		"503 ": context.DeadlineExceeded,
		"504 ": fmt.Errorf("sent: %w", events.ErrOutcomeUnknown),
		"409 ": remote.ErrCallEnded,
	} {
		o := b.callOn(t.Context(), &caller{err: err}, "s", "asks "+want, "echo", `{"do":"ask"}`)
		if o == nil || !strings.HasPrefix(o.Text, want) {
			t.Errorf("%v: got %+v, want the status %s", err, o, want)
		}
	}
}

// TestIdleLine sends one idle line before the end of a child's input.
func TestIdleLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `echo '{"type":"register","protocol":1,"manifest":{"version":"1","scope":"session","tools":[]}}'; read -r init; read -r start && echo '{"type":"placed"}' && cat >rest`
	a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}, Dir: dir, Idle: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := &bundle{Adapter: a, t: t}
	if err := b.session("s1", 1); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"idle","session":"s1","epoch":1,"quiet_ms":50}` + "\n"
	bustest.Eventually(t, "after the start "+want, func() bool {
		got, _ := os.ReadFile(dir + "/rest")
		return string(got) == want
	})
}

// TestAdapterKilled kills the process of an adapter. Its child, which ignores TERM and does not read its input, ends with
// the process that it started.
func TestAdapterKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), "LASH_TEST_ADAPTER=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-pid, 0); err != nil {
		t.Fatalf("group of the child: got %v, want it alive", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	waitGone(t, pid)
}

// TestClose ends a child that does not end with its input.
func TestClose(t *testing.T) {
	t.Parallel()
	b := start(t, "", func(c *stdio.Config) { c.Env["STAY"] = "1" })
	pid, _ := strconv.Atoi(b.text("s", "p", `{"do":"pid"}`))
	b.Close()
	waitGone(t, pid)
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("the process group %d is gone", pid), func() bool { return errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) })
}
