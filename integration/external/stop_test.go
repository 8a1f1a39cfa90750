package external

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// inTypeScript makes commands of the plugin notes as a program of the SDK of TypeScript.
func inTypeScript(t *testing.T) func(context.Context) *exec.Cmd {
	t.Helper()
	path := copyInto(t, modules(t), filepath.Join("testdata", "notes-sdk.mjs"))
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "node", path) } //nolint:gosec // a file of this test
}

// TestSIGTERMWithoutServer ends programs of a plugin after the end of the server and the nodes, with exit code 0. 20 s is
// well above the limits of the SDKs, and below the time limit of a call that waits for a node for ever.
func TestSIGTERMWithoutServer(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(t *testing.T) func(context.Context) *exec.Cmd{
		"Go":         func(*testing.T) func(context.Context) *exec.Cmd { return own },
		"TypeScript": inTypeScript,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := oneServer(t)
			on.program = program(t)
			s := on.start(t)
			s.node()
			p := s.program("i1")
			s.Server.Stop()
			p.signal(syscall.SIGTERM)
			late := time.AfterFunc(2*time.Minute, p.kill)
			defer late.Stop()
			runtest.WantError(t, "end", p.cmd.Wait(), nil)
		})
	}
}

// TestTypeScriptWaitsForServer starts a program of the SDK of TypeScript while no server runs. It names the server, without
// the password, and registers when the server runs.
func TestTypeScriptWaitsForServer(t *testing.T) {
	t.Parallel()
	cmd := inTypeScript(t)(harness.Context(t))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.WantError(t, "port", err, nil)
	at := free.Addr().(*net.TCPAddr)
	runtest.WantError(t, "port", free.Close(), nil)
	cmd.Env = append(os.Environ(), "LASH_PLUGIN_NATS=nats://any:secret@"+at.String())
	stderr, err := cmd.StderrPipe()
	runtest.WantError(t, "output", err, nil)
	runtest.WantError(t, "start", cmd.Start(), nil)
	t.Cleanup((&process{t, cmd}).kill)
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "no server answers at nats://"+at.String()) || !strings.Contains(line, "lash-node serve") {
		t.Errorf("got %q, %v, want the server's URL, and what starts it", line, err)
	}
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: at.Port, NoLog: true, NoSigs: true})
	runtest.WantError(t, "server", err, nil)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	conn, err := nats.Connect(ns.ClientURL())
	runtest.WantError(t, "connect", err, nil)
	t.Cleanup(conn.Close)
	sub, err := conn.SubscribeSync("lash.plugins.*.register")
	runtest.WantError(t, "subscribe", err, nil)
	_, err = sub.NextMsg(time.Minute)
	runtest.WantError(t, "registration", err, nil)
}

// TestTypeScriptConnection starts a program of the SDK of TypeScript with files of an embedded server: its own connects it,
// and what is wrong with another is said in one line that names it.
func TestTypeScriptConnection(t *testing.T) {
	t.Parallel()
	program := inTypeScript(t)
	store := filepath.Join(t.TempDir(), "store")
	server := bustest.Server(t, busembed.Config{StoreDir: store, Listen: true, Keyed: true, Plugins: []string{"notes", "other"}})
	own := busembed.PluginFile(store, "notes")
	for name, c := range map[string]struct{ env, want string }{
		"no_credentials":         {"LASH_PLUGIN_NATS=" + server.URL(), "refuses the credentials: LASH_PLUGIN_CONNECTION"},
		"a_file_that_is_no_seed": {"LASH_PLUGIN_NKEY=" + own, "LASH_PLUGIN_NKEY: " + own + " has no seed of an nkey"},
		"no_such_file":           {"LASH_PLUGIN_CONNECTION=" + store + "/missing", "/missing': a node with external plugins writes plugins/NAME.json in its store when it starts"},
		"the_file_of_another":    {"LASH_PLUGIN_CONNECTION=" + busembed.PluginFile(store, "other"), "do not let these credentials be plugin notes: "},
		"no_server":              {"LASH_PLUGIN=notes", "plugin notes: LASH_PLUGIN_NATS: is required: the URLs of the servers, or LASH_PLUGIN_CONNECTION with a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := program(harness.Context(t))
			cmd.Env = append(os.Environ(), c.env)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("got %v and %s\nwant %q", err, out, c.want)
			}
			if strings.Contains(string(out), "    at ") {
				t.Errorf("the text has a stack:\n%s", out)
			}
			if n := strings.Count(string(out), "Permissions Violation"); n > 3 { // the error, its stack and its cause
				t.Errorf("%d lines about permissions:\n%s", n, out)
			}
		})
	}
	t.Run("its_own_file", func(t *testing.T) {
		t.Parallel()
		conn, err := nats.Connect("", server.InProcess())
		runtest.WantError(t, "connect", err, nil)
		t.Cleanup(conn.Close)
		sub, err := conn.SubscribeSync("lash.plugins.notes.register")
		runtest.WantError(t, "subscribe", err, nil)
		cmd := program(harness.Context(t))
		cmd.Env = append(os.Environ(), "LASH_PLUGIN_CONNECTION="+own)
		runtest.WantError(t, "start", cmd.Start(), nil)
		t.Cleanup((&process{t, cmd}).kill)
		_, err = sub.NextMsg(time.Minute)
		runtest.WantError(t, "registration", err, nil)
	})
}

// TestKilledProgramLeavesTheList kills a program without calls. It stays in the list until its lease ends.
func TestKilledProgramLeavesTheList(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.node()
	p := s.program("i1")
	began := time.Now()
	p.kill()
	s.alive(0)
	wantLease(t, time.Since(began))
}

// TestCallsOfDeadProgram kills and freezes a program during a call of a tool that must not run twice, and of one that
// may. No other program lives.
func TestCallsOfDeadProgram(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"write": "[lost]", "look": "[failed]"} {
		for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
			t.Run(tool+"_"+name, func(t *testing.T) {
				t.Parallel()
				s := start(t, calling(tool, `{"text":"milk","millis":60000}`)...)
				s.node()
				p := s.program("i1")
				id := s.begin()
				s.logged("began", 1)
				began := time.Now()
				p.signal(signal)
				s.AwaitTurn(id, "t1")
				wantLease(t, time.Since(began))
				if got := s.CallResult(id, "k"); !strings.HasPrefix(got, want) {
					t.Errorf("result: got %q, want %s", got, want)
				}
			})
		}
	}
}

// wantLease compares the time since the end of a program, whose last sign of life may be a second old, with its lease.
// The upper limit is that of a machine without time for the test.
func wantLease(t *testing.T, took time.Duration) {
	t.Helper()
	if took < wire.Lease-2*wire.SignEvery || took > 20*wire.Lease {
		t.Errorf("got %v, want about %v", took, wire.Lease)
	}
}

// TestCallPassesDeadInstances has a node know twelve instances that receive no calls, as if each were gone just now, and one
// that lives. A repeatable call finds that one: those that did not receive the call are no deaths during it.
func TestCallPassesDeadInstances(t *testing.T) {
	t.Parallel()
	s := start(t, calling("look", `{"text":"milk"}`)...)
	s.node()
	s.program("i1")
	c, hash := s.client(), s.first.Status()[0].Hash
	for n := range 12 {
		s.signing(c, "notes", fmt.Sprint("dead", n), hash)
	}
	s.alive(13)
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "noted: milk")
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

// TestHookPassesDeadInstances has twelve instances that receive nothing, as if each were gone just now. The gate's hook, and
// a call inside another one that must not run twice, find the one that lives.
func TestHookPassesDeadInstances(t *testing.T) {
	t.Parallel()
	for _, scope := range []wire.Scope{"", wire.ScopeSession} {
		t.Run(fmt.Sprintf("%q", scope), func(t *testing.T) {
			t.Parallel()
			s := start(t, calling("write", "{}")...)
			s.node()
			h := newHooked()
			s.instance(remote.Config{Plugin: h, Scope: scope})
			c, hash := s.client(), s.first.Status()[0].Hash
			for n := range 12 {
				s.signing(c, "notes", fmt.Sprint("dead", n), hash)
			}
			s.known(s.first, "notes", 13)
			for n := range 4 {
				s.Model.Rescript(harness.Reply(harness.Text("done")))
				id := s.begin()
				runtest.Equal(t, fmt.Sprint("end ", n), s.AwaitTurn(id, "t1").End, events.EndFinished)
			}
		})
	}
}

// TestInnerCallPassesDeadInstances makes a call inside a program, of a tool that must not run twice.
func TestInnerCallPassesDeadInstances(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.coded("nested", `write, text="milk"`)
	s.node()
	s.program("i1")
	c, hash := s.client(), s.first.Status()[0].Hash
	for n := range 12 {
		s.signing(c, "notes", fmt.Sprint("dead", n), hash)
	}
	s.alive(13)
	id := s.Open(harness.CodeSession())
	s.StartTurn(id, "t1", harness.Text("go"))
	s.AwaitTurn(id, "t1")
	if got := s.Outputs(id)[0]; !strings.HasPrefix(got, "True noted: milk") {
		t.Errorf("output: got %q, want the result of the instance that lives", got)
	}
	runtest.DeepEqual(t, "runs", s.began(), 1)
}
