package external

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/external/stdio"
)

var stdioCases = []serviceCase{
	// The profile is the sandbox command of the adapter, which is of the operator, not of a session.
	{"T62_sandbox_of_each_child_is_the_same", sandboxAgain},
}

// boxed is a plugin in a shell, whose tool returns what the sandbox set, and the child's process id.
const boxed = `
echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"look","effects":"idempotent"}]}}'
while read -r line; do
  case $line in
    '{"type":"call",'*)
      id=${line#*\"session\":} && id='"session":'${id%%,\"turn\":*}
      echo "{\"type\":\"outcome\",$id,\"text\":\"$BOX $$\"}" ;;
  esac
done`

// sandboxAgain calls a child, kills it, replaces the node, and calls the next child.
func sandboxAgain(t *testing.T, on place) {
	done := harness.Reply(harness.Text("done"))
	s := on.start(t, harness.Reply(harness.Call("k1", "look", `{}`)), done, harness.Reply(harness.Call("k2", "look", `{}`)), done)
	kill := s.node()
	dir := t.TempDir()
	adapter, err := stdio.New(s.Ctx, stdio.Config{
		Plugin: "notes", Command: []string{"sh", "-c", boxed}, Sandbox: []string{"env", "BOX={cwd}/box"}, Dir: dir,
	})
	harness.WantError(t, "adapter", err, nil)
	t.Cleanup(adapter.Close)
	s.instance(remote.Config{Plugin: adapter})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	box, first, _ := strings.Cut(s.CallResult(id, "k1"), " ")
	harness.Equal(t, "sandbox of the first child", box, dir+"/box")
	pid, err := strconv.Atoi(first)
	harness.WantError(t, "process id", err, nil)
	harness.WantError(t, "kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	kill()
	s.node()
	s.RunTurn(id, "t2", harness.Text("again"))
	box, second, _ := strings.Cut(s.CallResult(id, "k2"), " ")
	harness.Equal(t, "sandbox of the next child", box, dir+"/box")
	if second == first {
		t.Errorf("child: got process %s again, want another one", second)
	}
}
