package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// endpoint is a model that requests these tool calls, each "name arguments", in one reply, and then replies "done".
func endpoint(t *testing.T, calls ...string) string {
	t.Helper()
	var list []events.Part
	for i, call := range calls {
		tool, args, _ := strings.Cut(call, " ")
		list = append(list, events.Part{Call: events.CallID(fmt.Sprintf("c%d", i)), Tool: tool, Args: []byte(args)})
	}
	return llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if len(llmtest.Results(req)) == 0 {
			return llmtest.Calls(list...)
		}
		return llmtest.Text("done")
	})
}

// lashNode runs the command in a process of its own.
func lashNode(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(limited(t), os.Args[0])
	cmd.Args = append([]string{"lash-node"}, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// clientOf is a host on a served node.
func clientOf(t *testing.T, s *serving) *session.Host {
	t.Helper()
	h, err := session.New(session.Config{Bus: s.open(t), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	return h
}

// TestLongServeGate runs calls that the flags do not allow. The approvals come from other processes.
func TestLongServeGate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := endpoint(t, `write_file {"path":"docs/a","content":"allowed"}`, `write_file {"path":"b","content":"approved"}`,
		`run_command {"command":"touch c"}`, `read_file {"path":"secret"}`)
	s := serveModel(t, model, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0",
		"--plugins", "default,files,shell", "--root", dir, "--allow", "write_file:docs/*", "--deny", "*:secret")
	defer s.stop(t, syscall.SIGTERM)
	on := []string{"--store", s.store}
	run := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := lashNode(t, append(args, on...)...)
		if code != want {
			t.Errorf("%q: got exit code %d, %q, want %d", args, code, errs, want)
		}
		return out + errs
	}
	if out := run(exitOK, "approvals"); out != "no call waits for an approval\n" {
		t.Errorf("approvals of nothing: got %q", out)
	}
	h := clientOf(t, s)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	if out := run(exitDifferent, "approvals", "s", "--wait", "1ms"); !strings.Contains(out, "nothing was asked") {
		t.Errorf("approvals that do not come: got %q", out)
	}
	_, err = h.Submit(limited(t), "s", api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
	runtest.NoError(t, err)
	var list []waiting
	asked, _, _ := lashNode(t, append([]string{"approvals", "--wait", "1m", "--json"}, on...)...)
	if err := json.Unmarshal([]byte(asked), &list); err != nil || len(list) != 2 ||
		list[0].Call != "t/0/1" || list[0].Question != "Let write_file run? b" || list[1].Tool != "run_command" {
		t.Fatalf("approvals: got %+v, %v, want the write of b and the command", list, err)
	}
	run(exitOK, "approve", "s", "t/0/2", "--deny", "no commands")
	run(exitOK, "approve", "s", "t/0/2", "--deny", "no commands")
	if out := run(exitDifferent, "approve", "s", "t/0/2"); !strings.Contains(out, "the call has another answer already") {
		t.Errorf("another answer: got %q", out)
	}
	run(exitOK, "approve", "s", "t/0/1", "--as", "ann")
	r, err := h.Await(limited(t), "s", "t")
	if err != nil || r.End != events.EndFinished || r.Text != "done" {
		t.Errorf("turn: got %+v, %v", r, err)
	}
	if out := run(exitOK, "approve", "s", "t/0/1"); out != "approved: call t/0/1 of session s\n" {
		t.Errorf("the same answer, after the turn's end: got %q", out)
	}
	if out := run(exitDifferent, "approve", "s", "t/0/1", "--deny", "no"); !strings.Contains(out, "the call has another answer already") {
		t.Errorf("another answer after the turn's end: got %q", out)
	}
	if got := answeredBy(t, h); len(got) != 2 || got["t/0/2"] != systemUser(t) || got["t/0/1"] != "ann" {
		t.Errorf("actors of the answers: got %v, want the system's user without --as, and else ann", got)
	}
	for name, want := range map[string]string{"docs/a": "allowed", "b": "approved", "c": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if got := resultsOf(t, h)[3]; got != "[failed] read_file is not allowed here secret" {
		t.Errorf("denied by rule: got %q", got)
	}
}

// answeredBy are the actors of the approvals in the history of the session s.
func answeredBy(t *testing.T, h *session.Host) map[events.EffectID]string {
	t.Helper()
	got := make(map[events.EffectID]string)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	for o, err := range h.Observe(ctx, "s", 0) {
		runtest.NoError(t, err)
		for i := range o.Commit.Events {
			switch p := o.Commit.Events[i].Payload.(type) {
			case *events.ToolApprovalGiven:
				got[p.Effect] = o.Commit.Actor.ID
			case *events.TurnCompleted:
				return got
			}
		}
	}
	return got
}

// systemUser is the name of the user of this process, as the command id prints it.
func systemUser(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	name, err := exec.CommandContext(t.Context(), "id", "-un").Output()
	runtest.NoError(t, err)
	return strings.TrimSpace(string(name))
}

// resultsOf are the tool results that the model of the session s received.
func resultsOf(t *testing.T, h *session.Host) (list []string) {
	t.Helper()
	v, err := h.View(limited(t), "s")
	runtest.NoError(t, err)
	for _, m := range v.Messages {
		for _, p := range m.Parts {
			if p.Kind == events.PartToolResult {
				list = append(list, p.Text)
			}
		}
	}
	return list
}

// pipe makes a named pipe and opens it. Reads fail after a minute.
func pipe(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	runtest.NoError(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0) // does not block until the other end opens
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	runtest.NoError(t, f.SetReadDeadline(time.Now().Add(time.Minute)))
	return f
}

// TestServeKilled kills a node with kill -9 while it runs an approved command. The command ends too, and the next node
// does not run it again.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), filepath.Join(t.TempDir(), "st")
	up, kept := pipe(t, filepath.Join(dir, "up"), os.O_RDWR), pipe(t, filepath.Join(dir, "kept"), os.O_RDONLY)
	model := endpoint(t, `run_command {"command":"echo ran >> log; exec 3> kept; echo up > up; sleep 1000 & sleep 1000"}`)
	args := []string{"--store", store, "--listen", "127.0.0.1:0", "--plugins", "gate,shell", "--root", dir}
	first := serveModel(t, model, args...)
	h := clientOf(t, first)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	_, err = h.Submit(limited(t), "s", api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
	runtest.NoError(t, err)
	for _, command := range [][]string{{"approvals", "--wait", "1m"}, {"approve", "s", "t/0/0"}} {
		if _, errs, code := lashNode(t, append(command, "--store", first.store)...); code != exitOK {
			t.Fatalf("%q: got %d, %s", command, code, errs)
		}
	}
	if line, err := bufio.NewReader(up).ReadString('\n'); err != nil {
		t.Fatalf("the command: got %q, %v, want it up", line, err)
	}
	runtest.NoError(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()
	if _, err := io.Copy(io.Discard, kept); err != nil { // ends once no process has it open
		t.Fatalf("the command's processes: got %v, want them gone", err)
	}
	second := serveModel(t, model, args...)
	defer second.stop(t, syscall.SIGTERM)
	h = clientOf(t, second)
	if r, err := h.Await(limited(t), "s", "t"); err != nil || r.End != events.EndFinished {
		t.Errorf("turn: got %+v, %v", r, err)
	}
	if got := resultsOf(t, h); len(got) != 1 || got[0] != projector.LostText {
		t.Errorf("results: got %q, want that it is lost", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "log")); string(got) != "ran\n" {
		t.Errorf("log: got %q, %v, want one line", got, err)
	}
}
