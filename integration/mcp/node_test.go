package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/mcp"
)

// In a process of a test node these variables have the URL of the bus, and the file of the runs of its server.
const (
	nodeVariable     = "LASH_TEST_NODE"
	nodeRunsVariable = "LASH_TEST_NODE_RUNS"
)

// runNode runs a node with the server srv until the process is killed.
func runNode(url, runs string) {
	err := func(ctx context.Context) error {
		on, err := bus.Open(ctx, bus.Config{URL: url})
		if err != nil {
			return err
		}
		server := ownServer("srv", runs)
		servers, err := mcp.New(mcp.Config{Servers: []mcp.Server{server}, Bus: on})
		if err != nil {
			return err
		}
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{servers}})
		if err != nil {
			return err
		}
		n, err := workers.NewNode(workers.Config{Bus: on, Plugins: builder, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(asked)}})
		if err != nil {
			return err
		}
		if err := servers.Start(ctx); err != nil {
			return err
		}
		<-servers.Source("srv").Ready() // a turn goes on as soon as the node starts
		return n.Start(ctx)
	}(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	select {}
}

// startNode starts a process with a node, and waits until it announces its server.
func (s *setting) startNode(signs *nats.Subscription, known map[string]bool) (pid int) {
	s.T.Helper()
	cmd := exec.CommandContext(s.Ctx, os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+s.Server.URL(), nodeRunsVariable+"="+s.runs)
	cmd.Stderr = os.Stderr
	runtest.WantError(s.T, "start", cmd.Start(), nil)
	s.T.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	for {
		m, err := signs.NextMsgWithContext(s.Ctx)
		runtest.WantError(s.T, "an announcement", err, nil)
		var a struct {
			Node    string
			Servers map[string]string
		}
		if json.Unmarshal(m.Data, &a) == nil && a.Servers["srv"] != "" && !known[a.Node] {
			known[a.Node] = true
			return cmd.Process.Pid
		}
	}
}

// parentOf is the process that started another.
func parentOf(pid int) int {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")) // it may be gone
	_, rest, _ := strings.Cut(string(data), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

// kill ends a process at once.
func (s *setting) kill(pid int) {
	s.T.Helper()
	runtest.WantError(s.T, "kill", syscall.Kill(pid, syscall.SIGKILL), nil)
}

// TestNodeDiesWithItsServer kills the process of a node, and that of its server, during a call whose turn the node runs. Another node
// ends the turn. A call that must not run twice is lost, and one that may repeat runs again at the other node's server. The history has
// one result of either.
func TestNodeDiesWithItsServer(t *testing.T) {
	t.Parallel()
	if bustest.Encrypted() {
		t.Skip("the processes of this test have no keys")
	}
	for tool, want := range map[string]struct {
		outcome events.Outcome
		runs    []string
	}{"once": {events.OutcomeLost, []string{"once"}}, "look": {events.OutcomeSuccess, []string{"look", "look"}}} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := &setting{System: harness.StartOn(t, busembed.Config{Listen: true}), runs: filepath.Join(t.TempDir(), "runs")}
			signs, err := s.Bus.Conn().SubscribeSync("lash.alive")
			runtest.WantError(t, "subscribe", err, nil)
			known := make(map[string]bool)
			first := s.startNode(signs, known)
			id := s.begin("srv__"+tool, `{"do":"wait","hold":true}`)
			s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
			server := s.pidOf(s.own("srv"))
			runtest.Equal(t, "parent of the server", parentOf(server), first)
			runtest.WantError(t, "freeze", syscall.Kill(server, syscall.SIGSTOP), nil) // it does not see that its node is gone
			s.kill(first)
			if err := syscall.Kill(server, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // it may die with its node
				t.Errorf("kill: %v", err)
			}
			s.release() // a run of the other node's server returns
			s.startNode(signs, known)
			s.AwaitTurn(id, "t1")
			lost, returned := len(harness.Find[*events.ToolLost](s.System, id)), len(harness.Find[*events.ToolReturned](s.System, id))
			runtest.Equal(t, "lost calls", lost, map[events.Outcome]int{events.OutcomeLost: 1}[want.outcome])
			runtest.EqualLists(t, "runs", s.logged(), want.runs)
			runtest.Equal(t, "results in the history", returned, 1-lost)
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}
