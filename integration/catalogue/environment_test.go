package catalogue

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/shell"
)

func environmentEntries() []entry {
	return []entry{
		{"X26", "commands run in the environment of their session", "environments of other directories, variables and limits", "commands, files and tasks in sessions that name them, at every API", "they run there; the history has the name, and neither directory nor variables", testEnvironment},
		{"X27", "a call names an environment", "one that calls may name, one that they may not, one that is not there", "commands that name them", "the first runs there; the others are refused by name", testEnvironmentOfCall},
		{"X28", "a node lacks an environment", "a session that names one", "turns, code, monitors on a node without it", "refused by name where it knows; a turn runs on a node that has it, or ends with the names that there are", testEnvironmentElsewhere},
		{"M14", "monitors run in an environment", "one with a directory, variables and a limit", "monitors of its sessions, and monitors that name it", "they run there, and end at the limit", testEnvironmentOfMonitor},
		{"P34", "code has the limits of its environment", "one with a short time, one with little memory", "an endless program, a large one", "each ends at its limit", testEnvironmentOfCode},
		{"L20", "copies have the environment of their source", "a session that names one", "child, fork, earlier copy, branch, with other settings", "they have it too; the running turn keeps its own", testEnvironmentOfCopies},
	}
}

const environmentSecret = "k7-of-the-ci"

// environments are three, each with a file "name" that has its name.
func environments(t *testing.T) plugin.Environments {
	t.Helper()
	all := plugin.Environments{
		"default": {},
		"ci":      {Variables: map[string]string{"TOKEN": environmentSecret, "SHORT": "abc"}, ByCall: true, MaxTime: time.Minute, MaxOutput: 200, CPU: 1500 * time.Millisecond, Memory: 1 << 30},
		"prod":    {},
	}
	for name, e := range all {
		top, err := filepath.EvalSymlinks(t.TempDir())
		runtest.WantError(t, "directory", err, nil)
		e.Dir = filepath.Join(top, "of-"+name)
		harness.WriteFiles(t, e.Dir, map[string]string{"name": name, "sub/name": "below " + name})
		all[name] = e
	}
	return all
}

// startIn starts a node with environments, and with what works in them.
func startIn(b *harness.System, cfg workers.Config) {
	b.T.Helper()
	dir := b.T.TempDir()
	list := []plugin.Factory{harness.ShellPlugin(b.T, shell.Config{Dir: dir}), harness.FilesPlugin(b.T, files.Config{Root: dir}), background.Factory(background.Config{Dir: dir})}
	b.Host = b.StartNodeWith(cfg, plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: list}).Host()
}

// lacks fails where the history of a session has a text.
func lacks(b *harness.System, id events.SessionID, texts ...string) {
	b.T.Helper()
	for _, e := range b.History(id) {
		body, err := events.EncodePayload(e.Payload)
		runtest.WantError(b.T, "encode", err, nil)
		for _, text := range texts {
			if bytes.Contains(body, []byte(text)) {
				b.T.Errorf("%s: got %q in the history: %q", e.Kind, text, body)
			}
		}
	}
}

func in(name string) api.CreateRequest {
	return api.CreateRequest{Config: events.Config{Environment: name}}
}

func testEnvironment(t *testing.T) {
	var script []harness.Step
	for range 2 {
		script = append(script, harness.Reply(
			harness.Call("a", "run_command", `{"command":"pwd; cat name; cat $PWD/sub/name; echo $TOKEN $SHORT; env | grep ^TOKEN; echo $PWD-old $PWD/sub; cat $PWD/none"}`),
			harness.Call("b", "run_command", `{"command":"pwd; cat name","cwd":"sub"}`),
			harness.Call("c", "read_file", `{"path":"name"}`),
			harness.Call("d", "run_command", `{"command":"true","timeout_ms":60001}`),
			harness.Call("e", "run_command", `{"command":"head -c 1000 /dev/zero | tr '\\0' x"}`),
			harness.Call("f", "task_start", `{"id":"t","command":"pwd; echo $TOKEN; ulimit -d"}`),
			harness.Call("g", "run_command", `{"command":"ulimit -St; ulimit -Ht; ulimit -d"}`),
		), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("heard")))
	}
	b := harness.StartIdle(t, script...)
	all := environments(t)
	startIn(b, workers.Config{Environments: all})
	d := b.ServeHTTP(httpapi.Config{})
	ci := all["ci"].Dir
	for route, id := range map[string]events.SessionID{
		"host": b.Open(in("ci")),
		"http": events.SessionID(d.Want(201, "POST", "/v1/sessions", `{"config":{"environment":"ci"}}`).Field("id")),
	} {
		runtest.Equal(t, "end over "+route, b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
		got := b.CallResult(id, "a")
		want := ".\ncibelow ci[TOKEN] abc\nTOKEN=[TOKEN]\n" + ci + "-old ./sub\ncat: ./none: No such file or directory\n[exit status 1]"
		runtest.Equal(t, "command over "+route, got, want)
		runtest.Equal(t, "below", b.CallResult(id, "b"), "./sub\nbelow ci")
		runtest.Equal(t, "file", strings.Contains(b.CallResult(id, "c"), "ci"), true)
		runtest.Equal(t, "time", strings.Contains(b.CallResult(id, "d"), "timeout_ms: 60001, want 0 to 60000"), true)
		runtest.Equal(t, "output", len(b.CallResult(id, "e")) < 400, true)
		b.AwaitTask(id, "t", events.TaskCompleted)
		s := b.AwaitState(id, "turn of the task", harness.AllNotified)
		runtest.Equal(t, "turns", s.Turns, 2)
		runtest.Equal(t, "told", strings.HasSuffix(b.Messages(id)[4], "\n.\n[TOKEN]\n1048576"), true)
		runtest.Equal(t, "limits of a process", b.CallResult(id, "g"), "2\n3\n1048576\n")
		lacks(b, id, environmentSecret, ci+"/", ci+"\n")
	}
	runtest.WantError(t, "left in the default", os.WriteFile(filepath.Join(all["default"].Dir, "name"), nil, 0o600), nil)
}

func testEnvironmentOfCall(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(
		harness.Call("a", "run_command", `{"command":"cat name","environment":"ci"}`),
		harness.Call("b", "run_command", `{"command":"cat name","environment":"prod"}`),
		harness.Call("c", "run_command", `{"command":"cat name","environment":"nowhere"}`),
		harness.Call("d", "run_command", `{"command":"cat name","environment":"default"}`),
		harness.Call("e", "run_command", `{"command":"cat name"}`),
		harness.Call("f", "monitor_start", `{"id":"m","command":"cat name; echo; sleep 1000","environment":"ci","notify_only":true}`),
		harness.Call("g", "task_start", `{"id":"t","command":"true","environment":"prod"}`),
		harness.Call("h", "run_command", `{"command":"sleep 1000","environment":"quick"}`),
		harness.Call("i", "task_start", `{"id":"q","command":"sleep 1000","environment":"quick"}`),
	), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("heard")))
	all := environments(t)
	all["quick"] = plugin.Environment{Dir: all["ci"].Dir, ByCall: true, Timeout: 40 * time.Millisecond, MaxTime: 50 * time.Millisecond}
	startIn(b, workers.Config{Environments: all})
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	for call, want := range map[string]string{
		"a": "ci", "b": `environment: "prod" is not for calls to name`, "c": `environment: this node has no "nowhere", but ci, default, prod, quick`,
		"d": "default", "e": "default", "g": `environment: "prod" is not for calls to name`, "h": "took longer than 40ms",
	} {
		runtest.Contains(t, call, b.CallResult(id, call), want)
	}
	runtest.Equal(t, "limit of the task", b.AwaitTask(id, "q", events.TaskFailed).Summary, "killed, as it took longer than 50ms")
	runtest.Equal(t, "line", b.AwaitUpdates(id, 1)[0].Message, "ci")
	spec := b.MonitorRecord(id, "m").Spec
	runtest.Equal(t, "environment of the monitor", spec.Environment, "ci")
	runtest.Equal(t, "directory in the history", spec.Cwd, "")
}

func testEnvironmentElsewhere(t *testing.T) {
	b := harness.StartIdle(t)
	id, code := b.Open(in("moon")), harness.CodeSession() // this host knows no environments
	code.Config.Environment = "moon"
	program := b.Open(code)
	startIn(b, workers.Config{Environments: environments(t), Patience: time.Millisecond})
	const want = `environment: this node has no "moon", but ci, default, prod`
	for _, id := range []events.SessionID{id, program} {
		b.StartTurn(id, "t1", harness.Text("go"))
		got := b.AwaitTurn(id, "t1")
		runtest.Equal(t, "end", got.End, events.EndFailed)
		runtest.Equal(t, "issue", got.Issue.Code+" "+got.Issue.Message, plugin.CodeUnknownEnvironment+" "+want)
	}
	runtest.WantError(t, "monitor", b.StartMonitor(b.Ctx, id, events.MonitorSpec{ID: "m", Command: "true"}), nil)
	runtest.Equal(t, "monitor", b.AwaitMonitor(id, "m", events.MonitorFailed).LastError, "start: "+want)

	_, err := b.Create(b.Ctx, in("mars"))
	runtest.WantError(t, "create", err, events.ErrInvalid)
	err = b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Environment = "mars"; return c }})
	runtest.WantError(t, "configure", err, events.ErrInvalid)
	err = b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Effort = "low"; return c }})
	runtest.WantError(t, "another setting", err, nil)

	b = harness.StartIdle(t, harness.Reply(harness.Call("a", "run_command", `{"command":"cat name"}`)), harness.Reply(harness.Text("done")))
	id = b.Open(in("moon"))
	all := environments(t)
	startIn(b, workers.Config{Environments: maps.Clone(all)})
	b.StartTurn(id, "t1", harness.Text("go"))
	all["moon"] = all["prod"]
	startIn(b, workers.Config{Environments: all})
	runtest.Equal(t, "end elsewhere", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "command elsewhere", b.CallResult(id, "a"), "prod")
	b.Verify(id)
}

func testEnvironmentOfMonitor(t *testing.T) {
	b := harness.StartIdle(t)
	all := environments(t)
	short := all["prod"]
	short.MaxTime = 50 * time.Millisecond
	all["prod"] = short
	startIn(b, workers.Config{Environments: all})
	id := b.Open(in("ci"))
	const command = "pwd; cat name; echo; ulimit -d; echo $TOKEN $OWN >&2; sleep 1000"
	b.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: command, Cwd: "sub", Env: map[string]string{"OWN": "mine"}, Wake: events.WakeNotify})
	var lines []string
	for _, e := range b.AwaitUpdates(id, 4) {
		if !e.Stderr {
			lines = append(lines, e.Message)
		} else {
			runtest.Equal(t, "variables", e.Message, "[TOKEN] mine")
		}
	}
	runtest.EqualLists(t, "lines", lines, []string{"./sub", "below ci", "1048576"})
	lacks(b, id, environmentSecret, all["ci"].Dir)
	b.StartMonitorOf(id, events.MonitorSpec{ID: "short", Command: "sleep 1000", Environment: "prod"})
	runtest.Equal(t, "limit", b.AwaitMonitor(id, "short", events.MonitorFailed).LastError, "timed out after 50ms")
}

func testEnvironmentOfCode(t *testing.T) {
	b := harness.StartIdle(t, harness.Program("while True:\n    pass"), harness.Reply(harness.Text("done")), harness.Program("x = [0] * (1 << 29)"), harness.Reply(harness.Text("done")))
	b.AddCodeTools()
	b.StartCodeNodeWith(workers.Config{Bus: b.Bus, Environments: plugin.Environments{"quick": {CodeTime: 20 * time.Millisecond}, "small": {Memory: 3 << 20}}})
	for _, c := range []struct{ name, want string }{{"quick", "the program ran longer than 20ms"}, {"small", "the program went beyond its memory limit (3145728 bytes)"}} {
		req := harness.CodeSession()
		req.Config.Environment = c.name
		id := b.Open(req)
		b.RunTurn(id, "t1", harness.Text("go"))
		runtest.Contains(t, c.name, b.Outputs(id)[0], c.want)
	}
}

func testEnvironmentOfCopies(t *testing.T) {
	started, configured := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.DoFirst(func() { started <- struct{}{}; <-configured }, harness.Reply(harness.Call("a", "run_command", `{"command":"cat name"}`))),
		harness.Reply(harness.Text("done")), harness.Reply(harness.Call("b", "run_command", `{"command":"cat name"}`)), harness.Reply(harness.Text("done")))
	startIn(b, workers.Config{Environments: environments(t)})
	id := b.Open(in("ci"))
	b.RunTurn(id, "t1", harness.Text("go"))
	seq := b.LastSeq(id)
	made := make(map[string]events.SessionID)
	other := events.Config{Model: "other"}
	handle, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{Parent: id, Relation: events.RelationChild, Config: other})
	runtest.WantError(t, "child", err, nil)
	made["child"] = handle.Session
	made["fork"], err = b.Fork(b.Ctx, id, api.CreateRequest{Config: other})
	runtest.WantError(t, "fork", err, nil)
	made["copy"], err = b.Create(b.Ctx, api.CreateRequest{Start: api.StartExisting, From: id, At: seq - 1, Config: other})
	runtest.WantError(t, "copy", err, nil)
	made["plain fork"], err = b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	for what, copied := range made {
		runtest.Equal(t, what, b.StateOf(copied).Config.Environment, "ci")
	}
	handle, err = b.CreateFrom(b.Ctx, id, api.CreateRequest{Parent: id, Relation: events.RelationChild, Config: events.Config{Environment: "default"}})
	runtest.WantError(t, "child with its own", err, nil)
	runtest.Equal(t, "child with its own", b.StateOf(handle.Session).Config.Environment, "default")

	b.StartTurn(id, "t2", harness.Text("go"))
	harness.Receive(b, "the model call", started)
	err = b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Environment = "prod"; return c }})
	runtest.WantError(t, "configure", err, nil)
	close(configured)
	b.AwaitTurn(id, "t2")
	runtest.Equal(t, "the running turn", b.CallResult(id, "a"), "ci")
	b.RunTurn(id, "t3", harness.Text("go"))
	runtest.Equal(t, "the next turn", b.CallResult(id, "b"), "prod")
}
