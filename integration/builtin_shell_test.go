package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
	"github.com/lash-go/lash/workers/builtin/subagent"
)

func shellIn(t *testing.T, cfg shell.Config) plugin.Factory {
	t.Helper()
	f, err := shell.Factory(cfg)
	must(t, "shell", err, nil)
	return f
}

// command is a call of the shell.
func command(id events.CallID, script string) events.Part {
	args, _ := json.Marshal(map[string]string{"command": script})
	return call(id, "run_command", string(args))
}

// TestShell runs commands: both outputs, statuses, directories, and what is bounded.
func TestShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"sub/x": ""})
	results(t, []asked{
		{"run_command", `{"command":"ls; echo err >&2","cwd":"sub"}`, "x\nerr\n"},
		{"run_command", `{"command":"echo x; exit 3"}`, "x\n[exit status 3]"},
		{"run_command", `{"command":"false"}`, "[exit status 1]"},
		{"run_command", `{"command":"true"}`, "[no output]"},
		{"run_command", `{"command":"kill -9 $$"}`, "[exit status -1]"},
		{"run_command", `{"command":"seq 1000 | tr -d '\\n'"}`, "1234567891\n[2873 bytes are not shown]\n9989991000"},
		{"run_command", `{"command":"(sleep 1000; echo late) & echo early"}`, "early\n"},
		{"run_command", `{"command":" "}`, "[failed] command: is blank"},
		{"run_command", `{"command":"true","timeout_ms":5001}`, "[failed] timeout_ms: 5001, want 0 to 5000"},
		{"run_command", `{"command":"true","cwd":"nowhere"}`, "[failed] cwd: nowhere is no directory"},
	}, shellIn(t, shell.Config{Dir: dir, MaxTime: 5 * time.Second, MaxOutput: 20}))
	if _, err := shell.Factory(shell.Config{Dir: filepath.Join(dir, "sub/x")}); err == nil {
		t.Error("a file as directory: got nil, want an error")
	}
}

// TestShellTimeout kills a command that takes too long and ignores TERM, with its child.
func TestShellTimeout(t *testing.T) {
	t.Parallel()
	kept := newFifo(t)
	_, gone := kept.held(t)
	args, err := json.Marshal(map[string]any{"command": keeps(kept, "trap '' TERM; "), "timeout_ms": 4000})
	must(t, "arguments", err, nil)
	b, _ := results(t, []asked{
		{"run_command", string(args), "[failed] timeout_ms: the command took longer than 4s, and was killed\nup"},
	}, shellIn(t, shell.Config{Dir: t.TempDir()}))
	b.wait("processes of the command that took too long", gone)
}

// TestShellCancel cancels a turn: its command is gone with its child.
func TestShellCancel(t *testing.T) {
	t.Parallel()
	kept := newFifo(t)
	up, gone := kept.held(t)
	b := setupIdle(t, reply(command("c1", keeps(kept, ""))))
	b.node(shellIn(t, shell.Config{Dir: t.TempDir()}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.wait("command", up)
	_, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{})
	must(t, "cancel", err, nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	b.wait("processes of the cancelled command", gone)
}

// TestShellKilled kills the node of a command: it is gone with its child, and no node runs it again.
func TestShellKilled(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), newFifo(t)
	up, gone := kept.held(t)
	b := setupIdle(t, reply(command("c1", keeps(kept, "echo ran >> log; "))), reply(text("pity")))
	n, kill := b.nodeOn(bustest.Open(t, b.server), shellIn(t, shell.Config{Dir: dir}))
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.wait("command", up)
	kill()
	b.wait("processes of the killed node", gone)
	b.node(shellIn(t, shell.Config{Dir: dir}))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "result", b.result(id, "c1"), projector.LostText)
	equal(t, "log", fileText(t, filepath.Join(dir, "log")), "ran\n")
}

// TestFilesKilled kills a node after it wrote and before that is recorded: no node writes again.
func TestFilesKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	b := setupIdle(t, reply(call("c1", "write_file", `{"path":"a","content":"the model's"}`)), reply(text("pity")))
	wrote := make(chan struct{})
	stuck := plugin.Func("stuck", func(r *plugin.Registrar) error {
		r.AfterToolCall(func(ctx context.Context, _ plugin.ToolResultContext) ([]plugin.Directive, error) {
			close(wrote)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		return nil
	})
	n, kill := b.nodeOn(bustest.Open(t, b.server), filesIn(t, files.Config{Root: dir}), stuck)
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.wait("write", wrote)
	kill()
	equal(t, "written", fileText(t, file), "the model's")
	must(t, "write", os.WriteFile(file, []byte("the user's"), 0o600), nil)
	b.node(filesIn(t, files.Config{Root: dir}))
	b.ended(id, "t1")
	equal(t, "result", b.result(id, "c1"), projector.LostText)
	equal(t, "kept", fileText(t, file), "the user's")
}

// TestGate lets what reads run, refuses and allows by rule, and asks about the rest.
func TestGate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "one"})
	b := setupIdle(t,
		reply(call("c1", "read_file", `{"path":"a"}`), command("c2", "echo fine"), command("c3", "rm a"), call("c4", "write_file", `{"path":"docs/x","content":"x"}`)),
		reply(call("c5", "write_file", `{"path":"b","content":"no"}`)), reply(command("c6", "echo fine; touch evil")), reply(text("done")),
	)
	b.node(filesIn(t, files.Config{Root: dir}), shellIn(t, shell.Config{Dir: dir}), gate.Factory(gate.Config{Options: gate.Options{
		Allow: []string{"write_file:docs/*", "run_command:echo *", "run_command:rm *"}, Deny: []string{"run_command:rm *"},
	}}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	question := b.answer(id, "c5", events.ToolApprovalGiven{Reason: "not here"})
	equal(t, "question", question.Question, "Let write_file run? b")
	equal(t, "asked by", question.Plugin, gate.ID)
	b.answer(id, "c6", events.ToolApprovalGiven{Granted: true})
	b.ended(id, "t1")
	for call, want := range map[string]string{
		"c1": "one", "c2": "fine\n", "c3": "[failed] run_command is not allowed here rm a", "c4": "1 bytes written to docs/x",
		"c5": "[failed] the call was not approved: not here", "c6": "fine\n",
	} {
		equal(t, call, b.result(id, call), want)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("refused write: got a file")
	}
	equal(t, "approved command", fileText(t, filepath.Join(dir, "evil")), "")
}

// answer waits for the question about a call, by its id, and answers it.
func (b *bundle) answer(id events.SessionID, callID events.CallID, answer events.ToolApprovalGiven) events.ToolApprovalAsked {
	b.t.Helper()
	var open []projector.Approval
	b.await(id, "question about "+string(callID), func(s *projector.State) bool {
		if t := s.Turn(); t == nil || len(t.Calls) == 0 || t.Calls[0].ID != callID {
			return false
		}
		var err error
		open, err = b.Approvals(b.ctx, id)
		must(b.t, "approvals", err, nil)
		return len(open) == 1
	})
	answer.Effect = open[0].Effect
	must(b.t, "approve", b.Approve(b.ctx, id, answer), nil)
	return open[0].ToolApprovalAsked
}

// TestGateAgent holds an agent to the rules of its parent's session, and asks in the agent's own.
func TestGateAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := setupIdle(t, reply(call("c1", "spawn_agent", `{"capability":"explore","task":"touch them"}`)),
		reply(command("c2", "touch evil")), reply(command("c3", "touch fine")), reply(text("touched")), reply(text("done")))
	b.node(shellIn(t, shell.Config{Dir: dir}), subagent.Factory(subagent.Config{}), gate.Factory(gate.Config{Options: gate.Options{Allow: []string{"run_command"}}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"run_command:*evil*"}})
	must(t, "options", err, nil)
	id := b.open(api.CreateRequest{Options: options})
	b.submit(id, "t1", text("go"))
	agent := b.await(id, "agent", func(s *projector.State) bool { return len(s.Tasks) == 1 }).Tasks[0].Child
	b.answer(agent, "c3", events.ToolApprovalGiven{Granted: true})
	b.ended(id, "t1")
	equal(t, "denied", b.result(agent, "c2"), "[failed] run_command is not allowed here touch evil")
	equal(t, "approved", b.result(agent, "c3"), "[no output]")
}

// TestGateKilled kills the node while the question waits, and the one that then runs the call.
func TestGateKilled(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), newFifo(t)
	up, gone := kept.held(t)
	b := setupIdle(t, reply(command("c1", keeps(kept, "echo ran >> log; "))), reply(text("pity")))
	start := func() func() {
		n, kill := b.nodeOn(bustest.Open(t, b.server), shellIn(t, shell.Config{Dir: dir}), gate.Factory(gate.Config{Options: gate.Options{}}))
		b.Host = n.Host()
		return kill
	}
	kill := start()
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.await(id, "question", hasAsk)
	kill()
	b.Host = b.otherHost()
	b.answer(id, "c1", events.ToolApprovalGiven{Granted: true})
	kill = start()
	b.wait("command", up)
	kill()
	b.wait("processes of the killed node", gone)
	start()
	b.ended(id, "t1")
	equal(t, "result", b.result(id, "c1"), projector.LostText)
	equal(t, "log", fileText(t, filepath.Join(dir, "log")), "ran\n")
	equal(t, "questions", len(find[*events.ToolApprovalAsked](b, id)), 1)
}

// TestGateSession has a session with rules of its own, and refuses rules that nobody can mean.
func TestGateSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "one"})
	b := setupIdle(t, reply(call("c1", "read_file", `{"path":"a"}`)), reply(text("done")))
	b.node(filesIn(t, files.Config{Root: dir}), gate.Factory(gate.Config{Options: gate.Options{}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Ask: []string{"*"}})
	must(t, "options", err, nil)
	id := b.open(api.CreateRequest{Options: options})
	b.submit(id, "t1", text("go"))
	equal(t, "question", b.answer(id, "c1", events.ToolApprovalGiven{Granted: true}).Question, "Let read_file run? a")
	b.ended(id, "t1")
	equal(t, "result", b.result(id, "c1"), "one")
	bad, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"a b"}})
	must(t, "options", err, nil)
	id = b.open(api.CreateRequest{Options: bad})
	_, err = b.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	must(t, "turn with bad rules", err, plugin.ErrRegistration)
	if err == nil || !strings.Contains(err.Error(), `deny: rule "a b"`) {
		t.Errorf("bad rules: got %v, want them named", err)
	}
}
