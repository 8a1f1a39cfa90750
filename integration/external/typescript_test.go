package external

import (
	"bufio"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// sdk is the folder of the SDK of TypeScript.
var sdk = filepath.Join("..", "..", "sdk", "typescript")

// readmeBlocks writes the programs of the README into a folder, and returns their paths.
func readmeBlocks(t *testing.T, dir string) (paths []string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(sdk, "README.md"))
	runtest.WantError(t, "README", err, nil)
	for i, block := range regexp.MustCompile("(?s)```js\n(.*?)```").FindAllSubmatch(readme, -1) {
		path := filepath.Join(dir, "block"+strconv.Itoa(i)+".mjs")
		runtest.WantError(t, "block", os.WriteFile(path, block[1], 0o600), nil)
		paths = append(paths, path)
	}
	if len(paths) != 3 {
		t.Fatalf("README: got %d programs, want 3", len(paths))
	}
	return paths
}

// TestTypes compiles the SDK, the programs of its README, and uses of its types that are right and wrong.
func TestTypes(t *testing.T) {
	t.Parallel()
	dir := modules(t)
	readmeBlocks(t, dir)
	for _, name := range []string{"misuse.ts", "tsconfig.json", "sessions.mjs"} {
		copyInto(t, dir, filepath.Join("testdata", "typescript", name))
	}
	tsc := filepath.Join(dir, "node_modules", ".bin", "tsc")
	runIn(t, dir, tsc, "-p", ".")
	runIn(t, filepath.Join(dir, "sdk"), tsc, "-p", ".")
}

// TestReadme runs the programs of the SDK's README.
func TestReadme(t *testing.T) {
	t.Parallel()
	blocks := readmeBlocks(t, modules(t))
	begin := func(t *testing.T, block int, script ...harness.Step) *setting {
		t.Helper()
		s := start(t, script...)
		s.node()
		s.launch("i1", exec.CommandContext(s.Ctx, "node", blocks[block])) //nolint:gosec // a file of this test
		s.alive(1)
		return s
	}
	t.Run("a_tool", func(t *testing.T) {
		for args, want := range map[string]string{
			`{"page":"shop","text":"milk"}`:   "wrote 4 characters to shop",
			`{"page":"locked","text":"milk"}`: "[failed] the page is locked",
		} {
			s := begin(t, 0, calling("write", args)...)
			id := s.begin()
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, args, s.CallResult(id, "k"), want)
		}
	})
	t.Run("a_hook", func(t *testing.T) {
		s := begin(t, 1)
		c := s.client()
		c.instance = s.idOf("i1")
		for price, want := range map[string]string{
			"5":   `{}`,
			"101": `{"directives":[{"kind":"abort_turn","code":"too_dear","message":"at most 100"}]}`,
			"0":   `{"directives":[{"kind":"replace_tool_args","args":{"thing":"car","price":1}}]}`,
		} {
			var got wire.HookResult
			c.ask(t, "hook", &wire.HookCall{
				Hook: "budget", Point: "before_tool_call", Invocation: "t/hook", Session: "s", DeadlineMS: 5000,
				Call: &wire.HookedCall{Tool: "buy", Args: json.RawMessage(`{"thing":"car","price":` + price + `}`)},
			}, &got)
			text, err := json.Marshal(&got)
			runtest.WantError(t, "answer", err, nil)
			runtest.Equal(t, price, string(text), want)
		}
	})
	t.Run("a_cancelled_call", func(t *testing.T) {
		s := begin(t, 2)
		c := s.client()
		c.instance = s.idOf("i1")
		call := aCall("job", "job", `{"command":"sleep 90 & echo $!; wait"}`)
		e := c.send(t, "call", call)
		printed := e.next(func(p *wire.Progress) bool { return p.Output != nil }).Output.Text
		pid, err := strconv.Atoi(strings.TrimSpace(printed))
		runtest.WantError(t, "process", err, nil)
		runtest.WantError(t, "process before the cancel", syscall.Kill(pid, 0), nil)
		c.send(t, "cancel", &wire.Cancel{CallID: call.CallID, GraceMS: 2000})
		runtest.DeepEqual(t, "outcome", e.outcome(), &wire.Outcome{Text: printed, Cancelled: true})
		s.AwaitPolling("the end of the process", func() bool {
			status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
			return err != nil || strings.Contains(string(status), "State:\tZ") // init has not waited for it yet
		})
	})
}

// TestSessionScope starts, moves and ends sessions on an instance of a plugin that keeps something for each.
func TestSessionScope(t *testing.T) {
	t.Parallel()
	program := copyInto(t, modules(t), filepath.Join("testdata", "typescript", "sessions.mjs"))
	s := start(t)
	s.node()
	s.launch("i1", exec.CommandContext(s.Ctx, "node", program)) //nolint:gosec // a file of this test
	s.alive(1)
	c := s.client()
	c.instance = s.idOf("i1")
	code := func(e *exchange) string {
		var got struct{ Error *wire.Error }
		if e.answer(&got); got.Error != nil {
			return got.Error.Code
		}
		return ""
	}
	startOf := func(session events.SessionID, epoch int64, label string) *exchange {
		return c.send(t, "session_start", &wire.SessionStart{Session: session, Epoch: epoch, Labels: map[string]string{"label": label}})
	}
	place := func(session events.SessionID, epoch int64, label string) string {
		return code(startOf(session, epoch, label))
	}
	n := 0
	add := func(session events.SessionID, epoch int64) string {
		n++
		call := aCall(strconv.Itoa(n), "add", `{}`)
		call.Session, call.Epoch = session, epoch
		last := c.send(t, "call", call).next((*wire.Progress).Last)
		if last.Error != nil {
			return last.Error.Code
		}
		return last.Outcome.Text
	}
	hint := func(session events.SessionID, epoch int64, quiet ...int64) *exchange {
		return c.send(t, "idle", &wire.Idle{Session: session, Epoch: epoch, QuietMS: append(quiet, 0)[0]})
	}
	ended := func(e *exchange) bool {
		var got wire.IdleAnswer
		e.answer(&got)
		return got.Ended
	}
	idle := func(session events.SessionID, epoch int64, quiet ...int64) bool {
		return ended(hint(session, epoch, quiet...))
	}
	runtest.Equal(t, "call without a placement", add("a", 1), wire.CodeNotOwner)
	runtest.Equal(t, "start", place("a", 1, "first"), "")
	runtest.Equal(t, "call", add("a", 1), "first 1")
	runtest.Equal(t, "start again", place("a", 1, "first"), "")
	runtest.Equal(t, "call after the repeat", add("a", 1), "first 2")
	runtest.Equal(t, "call of a later epoch", add("a", 2), wire.CodeNotOwner)
	runtest.Equal(t, "start after a move", place("a", 2, "second"), "")
	runtest.Equal(t, "call of an old epoch", add("a", 1), wire.CodeNotOwner)
	runtest.Equal(t, "start of an old epoch", place("a", 1, "first"), wire.CodeNotOwner)
	runtest.Equal(t, "call after the move", add("a", 2), "second 1")
	runtest.Equal(t, "idle of an old epoch", idle("a", 1), false)
	runtest.Equal(t, "idle for longer than the last call is ago", idle("a", 2, 600_000), false)
	runtest.Equal(t, "idle", idle("a", 2), true)
	runtest.Equal(t, "call after the end", add("a", 2), wire.CodeNotOwner)
	hookOf := func(name string, session events.SessionID, epoch int64) *exchange {
		point := map[string]string{"seen": "turn_finalized", "gate": "before_turn"}[name]
		return c.send(t, "hook", &wire.HookCall{Hook: name, Point: point, Invocation: "i", Session: session, Epoch: epoch, DeadlineMS: 60_000})
	}
	hook := func(name string, session events.SessionID, epoch int64) string {
		return code(hookOf(name, session, epoch))
	}
	received := func() { // what was sent before
		runtest.Equal(t, "call without a placement", add("elsewhere", 1), wire.CodeNotOwner)
	}
	runtest.Equal(t, "hook that observes another session", hook("seen", "elsewhere", 0), "")
	runtest.Equal(t, "hook of a session without a placement", hook("gate", "elsewhere", 1), wire.CodeNotOwner)
	runtest.Equal(t, "hook after the end", hook("gate", "a", 2), wire.CodeNotOwner)
	runtest.Equal(t, "start of a slow one", place("d", 1, "slow"), "")
	decision := hint("d", 1)
	s.logged("decides", 1)
	during := hookOf("gate", "d", 1)
	received()
	s.release()
	runtest.Equal(t, "idle of a slow one", ended(decision), false)
	runtest.Equal(t, "hook while the plugin decides", code(during), "")
	s.hold()
	runtest.Equal(t, "start of one that ends", place("e", 1, "ends"), "")
	during = hookOf("gate", "e", 1)
	s.logged("hooked", 2)
	runtest.Equal(t, "idle while a hook runs", idle("e", 1), false)
	s.release()
	runtest.Equal(t, "hook before a hint", code(during), "")
	s.hold()
	decision = hint("e", 1)
	s.logged("decides", 2)
	same, higher := startOf("e", 1, "ends"), startOf("e", 2, "ends")
	received()
	s.release()
	runtest.Equal(t, "idle of one that ends", ended(decision), true)
	runtest.Equal(t, "start with the same epoch while the plugin decides", code(same), wire.CodeNotOwner)
	runtest.Equal(t, "start with a higher one while the plugin decides", code(higher), "")
	runtest.Equal(t, "call after the decision", add("e", 2), "ends 1")
	runtest.Equal(t, "next call", add("e", 2), "ends 2")
	runtest.Equal(t, "refused start", place("b", 1, "refused"), wire.CodeInternal)
	runtest.Equal(t, "start of a busy one", place("c", 1, "busy"), "")
	runtest.Equal(t, "idle of a busy one", idle("c", 1), false)
	runtest.Equal(t, "call of a busy one", add("c", 1), "busy 1")
}

// TestLimitsOfSDK runs the SDK's own tests: limits that take long over NATS.
func TestLimitsOfSDK(t *testing.T) {
	t.Parallel()
	runIn(t, filepath.Join(modules(t), "sdk"), "node", "--test")
}

// TestReadmeInTypeScript compiles the programs of the SDK's README as TypeScript, with the options that the README has, and runs one.
func TestReadmeInTypeScript(t *testing.T) {
	t.Parallel()
	dir := modules(t)
	for _, block := range readmeBlocks(t, dir) {
		runtest.WantError(t, "rename", os.Rename(block, strings.TrimSuffix(block, ".mjs")+".ts"), nil)
	}
	readme, err := os.ReadFile(filepath.Join(sdk, "README.md"))
	runtest.WantError(t, "README", err, nil)
	options := regexp.MustCompile("(?s)```json\n(\\{\\s*\"compilerOptions\".*?)```").FindSubmatch(readme)
	if options == nil || !strings.Contains(string(readme), "npm install --save-dev typescript @types/node") || !strings.Contains(string(readme), "`npm pkg set type=module`") {
		t.Fatal("README: has no options of the compiler, or not what is installed")
	}
	runtest.WantError(t, "options", os.WriteFile(filepath.Join(dir, "tsconfig.json"), options[1], 0o600), nil)
	runtest.WantError(t, "package", os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600), nil)
	runIn(t, dir, "npm", "pkg", "set", "type=module")
	runIn(t, dir, filepath.Join(dir, "node_modules", ".bin", "tsc"))
	s := start(t)
	s.node()
	s.launch("i1", exec.CommandContext(s.Ctx, "node", filepath.Join(dir, "build", "block0.js"))) //nolint:gosec // a file of this test
	s.alive(1)
}

// TestTypeScriptSaysThatItServes starts a program before its node. It says that it waits for one, and then that it is registered.
func TestTypeScriptSaysThatItServes(t *testing.T) {
	t.Parallel()
	s := start(t)
	cmd := exec.CommandContext(s.Ctx, "node", copyInto(t, modules(t), filepath.Join("testdata", "notes-sdk.mjs"))) //nolint:gosec // a file of this test
	cmd.Env = append(os.Environ(), "LASH_PLUGIN=notes", "LASH_PLUGIN_NATS="+s.on.url, "LASH_PLUGIN_PREFIX="+s.on.prefix)
	stderr, err := cmd.StderrPipe()
	runtest.WantError(t, "output", err, nil)
	runtest.WantError(t, "start", cmd.Start(), nil)
	t.Cleanup((&process{t, cmd}).kill)
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	runtest.WantError(t, "first line", err, nil)
	runtest.Equal(t, "first line", line, "no node answers the registration of plugin notes: waiting for one\n")
	s.node()
	line, err = lines.ReadString('\n')
	runtest.WantError(t, "second line", err, nil)
	runtest.Equal(t, "second line", line, "plugin notes is registered\n")
}

// wrongVariables are values that the variables refuse, with a part of the reason: PROTOCOL.md has the rules. PIPE is a named pipe, DIR a
// folder, TEXT a file with a text, CA_PIPE a connection whose tls_ca is the pipe.
func wrongVariables() map[string]map[string]string {
	const token, missing, noFile = "must be 1 to 64 characters of A-Z a-z 0-9 _ -", "no such file", "is not a regular file"
	return map[string]map[string]string{
		"LASH_PLUGIN": {"no token": token}, "LASH_PLUGIN_PREFIX": {"a.b": token}, "LASH_PLUGIN_INSTANCE": {"a b": token, strings.Repeat("n", 52): "has 52 characters, limit is 51"},
		"LASH_PLUGIN_NATS": {"": "is required", "http://x": "nats://HOST:PORT", "nats://x:port": "nats://HOST:PORT"}, "LASH_PLUGIN_INBOX": {"_INBOX.": "_INBOX.USER", "a b": "_INBOX.USER"},
		"LASH_PLUGIN_CONNECTION": {"NONE": missing, "PIPE": noFile, "DIR": noFile, "TEXT": "TEXT: Unexpected token", "NO_URL": "NO_URL: url: is required", "CA_PIPE": "tls_ca: "},
		"LASH_PLUGIN_NKEY":       {"NONE": missing, "PIPE": noFile, "/dev/zero": noFile, "TEXT": "has no seed of an nkey"},
		"LASH_PLUGIN_TLS_CA":     {"NONE": missing, "PIPE": noFile, "TEXT": "has no certificate in PEM"},
		"LASH_PLUGIN_TLS_CERT":   {"NONE": missing, "PIPE": noFile},
		"LASH_PLUGIN_TLS_KEY":    {"NONE": missing, "PIPE": noFile},
	}
}

// TestTypeScriptSaysWhatIsWrong starts a program with each variable of the protocol wrong: it ends with status 2 and one line, which names the
// variable and the rule.
func TestTypeScriptSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	path, dir := copyInto(t, modules(t), filepath.Join("testdata", "notes-sdk.mjs")), t.TempDir()
	files := map[string]string{"NONE": filepath.Join(dir, "none"), "PIPE": filepath.Join(dir, "pipe"), "DIR": dir}
	for name, text := range map[string]string{"TEXT": "text", "NO_URL": "{}", "CA_PIPE": `{"url":"nats://x","tls_ca":"` + files["PIPE"] + `"}`} {
		files[name] = filepath.Join(dir, name)
		runtest.WantError(t, "file", os.WriteFile(files[name], []byte(text), 0o600), nil)
	}
	runtest.WantError(t, "pipe", syscall.Mkfifo(files["PIPE"], 0o600), nil)
	values := wrongVariables()
	for _, variable := range remote.Variables() { // those of the other SDK
		if len(values[variable]) == 0 {
			t.Errorf("%s: has no wrong value", variable)
		}
		for value, want := range values[variable] {
			cmd := exec.CommandContext(harness.Context(t), "node", path) //nolint:gosec // a file of this test
			cmd.Env = append(os.Environ(), "LASH_PLUGIN=notes", "LASH_PLUGIN_NATS=nats://127.0.0.1:1", variable+"="+cmp.Or(files[value], value))
			out, err := cmd.CombinedOutput()
			line, rest, _ := strings.Cut(string(out), "\n")
			if cmd.ProcessState.ExitCode() != 2 || rest != "" || !strings.HasPrefix(line, "plugin notes: "+variable+": ") || !strings.Contains(line, want) {
				t.Errorf("%s=%.30s: got %v, %q, want status 2 and one line with the variable: %s", variable, value, err, out, want)
			}
		}
	}
}
