package system

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
	"github.com/lash-go/lash/workers/builtin/subagent"
)

// command is a call of the shell.
func command(id events.CallID, script string) events.Part {
	args, _ := json.Marshal(map[string]string{"command": script})
	return harness.Call(id, "run_command", string(args))
}

// TestSmokeShell runs commands: both outputs, statuses, directories, and what is bounded.
func TestSmokeShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"sub/x": ""})
	harness.CheckCalls(t, []harness.CallCase{
		{"run_command", `{"command":"ls; echo err >&2","cwd":"sub"}`, "x\nerr\n"},
		{"run_command", `{"command":"echo x; exit 3"}`, "x\n[exit status 3]"},
		{"run_command", `{"command":"false"}`, "[exit status 1]"},
		{"run_command", `{"command":"true"}`, "[no output]"},
		{"run_command", `{"command":"kill -9 $$"}`, "[ended by signal 9 (SIGKILL, killed)]"},
		{"run_command", `{"command":"seq 1000 | tr -d '\\n'"}`, "1234567891\n[2873 bytes are not shown]\n9989991000"},
		{"run_command", `{"command":"(sleep 1000; echo late) & echo early"}`, "early\n"},
		{"run_command", `{"command":" "}`, "[failed] command: is blank"},
		{"run_command", `{"command":"true","timeout_ms":60001}`, "[failed] timeout_ms: 60001, want 0 to 60000"},
		{"run_command", `{"command":"true","cwd":"nowhere"}`, "[failed] cwd: nowhere is no directory"},
	}, harness.ShellPlugin(t, shell.Config{Dir: dir, MaxTime: time.Minute, MaxOutput: 20}))
	if _, err := shell.Factory(shell.Config{Dir: filepath.Join(dir, "sub/x")}); err == nil {
		t.Error("a file as directory: got nil, want an error")
	}
}

// TestShellTimeout kills a command that exceeds its time limit and ignores TERM, with its child.
func TestShellTimeout(t *testing.T) {
	t.Parallel()
	fifo := harness.NewFifo(t)
	_, ended := fifo.Opened(t)
	args, err := json.Marshal(map[string]any{"command": harness.KeepOpen(fifo, "trap '' TERM; "), "timeout_ms": 4000})
	runtest.WantError(t, "arguments", err, nil)
	b, _ := harness.CheckCalls(t, []harness.CallCase{
		{"run_command", string(args), "[failed] timeout_ms: the command took longer than 4s, and was killed\nup"},
	}, harness.ShellPlugin(t, shell.Config{Dir: t.TempDir()}))
	b.Wait("processes of the command that took too long", ended)
}

// TestShellCancel cancels a turn: its command ends with its child.
func TestShellCancel(t *testing.T) {
	t.Parallel()
	fifo := harness.NewFifo(t)
	up, ended := fifo.Opened(t)
	b := harness.StartIdle(t, harness.Reply(command("c1", harness.KeepOpen(fifo, ""))))
	b.StartNode(harness.ShellPlugin(t, shell.Config{Dir: t.TempDir()}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.Wait("command", up)
	_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	b.Wait("processes of the cancelled command", ended)
}

// TestCancelledResultPassesTheHooks cancels a turn whose tool then returns a text: the history has it, as the hooks after
// the call leave it.
func TestCancelledResultPassesTheHooks(t *testing.T) {
	t.Parallel()
	for want, directives := range map[string][]plugin.Directive{
		"half of it": nil,
		"hidden":     {plugin.ShortCircuit(plugin.Result{Outcome: events.OutcomeCancelled, Text: "hidden"})},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "slow", `{}`)))
			begun := make(chan struct{})
			b.StartNode(plugin.Func("slow", func(r *plugin.Registrar) error {
				plugin.AddTool(r, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (plugin.Result, error) {
					close(begun)
					<-ctx.Done()
					return plugin.Result{Outcome: events.OutcomeCancelled, Text: "half of it"}, nil
				})
				r.AfterToolCall(func(ctx context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
					runtest.Equal(t, "hook", in.Result.Text, "half of it")
					return directives, ctx.Err()
				})
				return nil
			}))
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			b.Wait("tool", begun)
			_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
			runtest.WantError(t, "cancel", err, nil)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
			runtest.Equal(t, "result", b.CallResult(id, "c1"), want)
		})
	}
}

// TestShellKilled kills the node of a command: the command ends with its child, and no node runs it again.
func TestShellKilled(t *testing.T) {
	t.Parallel()
	dir, fifo := t.TempDir(), harness.NewFifo(t)
	up, ended := fifo.Opened(t)
	b := harness.StartIdle(t, harness.Reply(command("c1", harness.KeepOpen(fifo, "echo ran >> log; "))), harness.Reply(harness.Text("pity")))
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.ShellPlugin(t, shell.Config{Dir: dir}))
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.Wait("command", up)
	kill()
	b.Wait("processes of the killed node", ended)
	b.StartNode(harness.ShellPlugin(t, shell.Config{Dir: dir}))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "result", b.CallResult(id, "c1"), projector.LostText)
	runtest.Equal(t, "log", harness.ReadFile(t, filepath.Join(dir, "log")), "ran\n")
}

// TestFilesKilled kills a node after its write and before the record of it: no node writes again.
func TestFilesKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "write_file", `{"path":"a","content":"the model's"}`)), harness.Reply(harness.Text("pity")))
	wrote := make(chan struct{})
	stuck := plugin.Func("stuck", func(r *plugin.Registrar) error {
		r.AfterToolCall(func(ctx context.Context, _ plugin.ToolResultContext) ([]plugin.Directive, error) {
			close(wrote)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		return nil
	})
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.FilesPlugin(t, files.Config{Root: dir}), stuck)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.Wait("write", wrote)
	kill()
	runtest.Equal(t, "written", harness.ReadFile(t, file), "the model's")
	runtest.WantError(t, "write", os.WriteFile(file, []byte("the user's"), 0o600), nil)
	b.StartNode(harness.FilesPlugin(t, files.Config{Root: dir}))
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", b.CallResult(id, "c1"), projector.LostText)
	runtest.Equal(t, "kept", harness.ReadFile(t, file), "the user's")
}

// TestSmokeGate runs tools that read, refuses and allows by rule, and requests an approval for the rest.
func TestSmokeGate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"a": "one"})
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "read_file", `{"path":"a"}`), command("c2", "echo fine"), command("c3", "rm a"), harness.Call("c4", "write_file", `{"path":"docs/x","content":"x"}`)),
		harness.Reply(harness.Call("c5", "write_file", `{"path":"b","content":"no"}`)), harness.Reply(command("c6", "echo fine; touch evil")), harness.Reply(harness.Text("done")),
	)
	b.StartNode(harness.FilesPlugin(t, files.Config{Root: dir}), harness.ShellPlugin(t, shell.Config{Dir: dir}), gate.Factory(gate.Config{Options: gate.Options{
		Allow: []string{"write_file:docs/*", "run_command:echo *", "run_command:rm *"}, Deny: []string{"run_command:rm *"},
	}}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	question := answer(b, id, "c5", events.ToolApprovalGiven{Reason: "not here"})
	runtest.Equal(t, "question", question.Question, "Let write_file run? b")
	runtest.Equal(t, "asked by", question.Plugin, gate.ID)
	answer(b, id, "c6", events.ToolApprovalGiven{Granted: true})
	b.AwaitTurn(id, "t1")
	for call, want := range map[string]string{
		"c1": "one", "c2": "fine\n", "c3": "[failed] run_command is not allowed here rm a", "c4": "1 bytes written to docs/x",
		"c5": "[failed] the call was not approved: not here", "c6": "fine\n",
	} {
		runtest.Equal(t, call, b.CallResult(id, call), want)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("refused write: got a file")
	}
	runtest.Equal(t, "approved command", harness.ReadFile(t, filepath.Join(dir, "evil")), "")
}

// answer waits for the approval request of a call, by its id, and answers it.
func answer(b *harness.System, id events.SessionID, callID events.CallID, answer events.ToolApprovalGiven) events.ToolApprovalAsked {
	b.T.Helper()
	var open []api.PendingApproval
	b.AwaitState(id, "question about "+string(callID), func(s *projector.State) bool {
		if t := s.Turn(); t == nil || len(t.Calls) == 0 || t.Calls[0].ID != callID {
			return false
		}
		var err error
		open, err = b.Approvals(b.Ctx, id)
		runtest.WantError(b.T, "approvals", err, nil)
		return len(open) == 1
	})
	answer.Effect = open[0].Effect
	runtest.WantError(b.T, "approve", b.Approve(b.Ctx, id, answer), nil)
	return open[0].ToolApprovalAsked
}

// TestGateAgent applies the rules of the parent's session to an agent, and requests approvals in the agent's own
// session.
func TestGateAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"touch them"}`)),
		harness.Reply(command("c2", "touch evil")), harness.Reply(command("c3", "touch fine")), harness.Reply(harness.Text("touched")), harness.Reply(harness.Text("done")))
	b.StartNode(harness.ShellPlugin(t, shell.Config{Dir: dir}), subagent.Factory(subagent.Config{}), gate.Factory(gate.Config{Options: gate.Options{Allow: []string{"run_command"}}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"run_command:*evil*"}})
	runtest.WantError(t, "options", err, nil)
	id := b.Open(api.CreateRequest{Options: options})
	b.StartTurn(id, "t1", harness.Text("go"))
	agent := b.AwaitState(id, "agent", func(s *projector.State) bool { return len(s.Tasks) == 1 }).Tasks[0].Child
	answer(b, agent, "c3", events.ToolApprovalGiven{Granted: true})
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "denied", b.CallResult(agent, "c2"), "[failed] run_command is not allowed here touch evil")
	runtest.Equal(t, "approved", b.CallResult(agent, "c3"), "[no output]")
}

// TestQuestionsOfAgents has an agent of an agent ask, and two agents at once: the requests of the root's session have all questions,
// with their sessions, and its turn says whose calls wait, in each of its descriptions.
func TestQuestionsOfAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spawn := func(id events.CallID, task string) events.Part {
		return harness.Call(id, "spawn_agent", fmt.Sprintf(`{"capability":"explore","task":%q}`, task))
	}
	b := harness.StartIdle(t, harness.Reply(spawn("c1", "deep")), harness.Reply(spawn("c2", "deeper")), harness.Reply(command("c3", "touch fine")),
		harness.Reply(harness.Text("leaf done")), harness.Reply(harness.Text("agent done")), harness.Reply(harness.Text("root done")))
	b.StartNode(harness.ShellPlugin(t, shell.Config{Dir: dir}), subagent.Factory(subagent.Config{}), gate.Factory(gate.Config{}))
	d := b.ServeHTTP(httpapi.Config{})
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	agentOf := func(id events.SessionID) events.SessionID {
		return b.AwaitState(id, "agent", func(s *projector.State) bool { return len(s.Tasks) == 1 }).Tasks[0].Child
	}
	agent := agentOf(id)
	leaf := agentOf(agent)
	b.AwaitState(leaf, "question", harness.HasAsk)
	for _, of := range []events.SessionID{id, agent, leaf} {
		list, err := b.Approvals(b.Ctx, of)
		runtest.WantError(t, "approvals", err, nil)
		if len(list) != 1 || list[0].Session != leaf || list[0].Question != "Let run_command run? touch fine" {
			t.Fatalf("approvals of %s: got %+v, want that of %s", of, list, leaf)
		}
	}
	turns, err := b.Turns(b.Ctx, id, api.Page{})
	runtest.WantError(t, "turns", err, nil)
	if got := turns.Turns[0]; got.Status != api.TurnAsking || !slices.Equal(got.Asks, []events.SessionID{leaf}) {
		t.Errorf("turn in the list: got %+v, want it asking for %s", got, leaf)
	}
	for path, want := range map[string]string{
		"/turns/t1":        fmt.Sprintf(`{"turn":"t1","status":"asking","asks":[%q]}`, leaf),
		"/turns/t1?wait=1": fmt.Sprintf(`{"turn":"t1","status":"asking","asks":[%q]}`, leaf),
		"/turns":           fmt.Sprintf(`"status":"asking","asks":[%q]`, leaf),
		"/approvals":       fmt.Sprintf(`{"approvals":[{"session":%q,"call":`, leaf),
	} {
		if _, answer := d.StatusOf("admin", "GET", "/v1/sessions/"+string(id)+path, ""); !strings.Contains(answer, want) {
			t.Errorf("%s: got %s, want %s in it", path, answer, want)
		}
	}
	answer(b, leaf, "c3", events.ToolApprovalGiven{Granted: true})
	b.AwaitTurn(id, "t1")
	list, err := b.Approvals(b.Ctx, id)
	if runtest.WantError(t, "approvals", err, nil); len(list) != 0 {
		t.Errorf("after the answer: got %+v, want none", list)
	}
}

// TestGateSession has a session with rules of its own, and refuses malformed rules.
func TestGateSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"a": "one"})
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "read_file", `{"path":"a"}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.FilesPlugin(t, files.Config{Root: dir}), gate.Factory(gate.Config{Options: gate.Options{}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Ask: []string{"*"}})
	runtest.WantError(t, "options", err, nil)
	id := b.Open(api.CreateRequest{Options: options})
	b.StartTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "question", answer(b, id, "c1", events.ToolApprovalGiven{Granted: true}).Question, "Let read_file run? a")
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", b.CallResult(id, "c1"), "one")
	bad, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"a b"}})
	runtest.WantError(t, "options", err, nil)
	id = b.Open(api.CreateRequest{Options: bad})
	_, err = b.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "turn with bad rules", err, plugin.ErrRegistration)
	if err == nil || !strings.Contains(err.Error(), `deny: rule "a b"`) {
		t.Errorf("bad rules: got %v, want them named", err)
	}
}
