package external

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/stdio"
)

var stdioCases = []serviceCase{
	// The profile is the sandbox command of the adapter, which is of the operator, not of a session.
	{"T18g_line_of_a_program_stores_a_body", storesInLines},
	{"T18h_line_of_a_program_writes_a_trace_event", tracesInLines},
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
	runtest.WantError(t, "adapter", err, nil)
	t.Cleanup(adapter.Close)
	s.instance(remote.Config{Plugin: adapter})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	box, first, _ := strings.Cut(s.CallResult(id, "k1"), " ")
	runtest.Equal(t, "sandbox of the first child", box, dir+"/box")
	pid, err := strconv.Atoi(first)
	runtest.WantError(t, "process id", err, nil)
	runtest.WantError(t, "kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	kill()
	s.node()
	s.RunTurn(id, "t2", harness.Text("again"))
	box, second, _ := strings.Cut(s.CallResult(id, "k2"), " ")
	runtest.Equal(t, "sandbox of the next child", box, dir+"/box")
	if second == first {
		t.Errorf("child: got process %s again, want another one", second)
	}
}

// storing is a plugin in a shell, whose tool stores two bytes and names them as an attachment.
const storing = `
echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"look"}]}}'
body='"digest":"8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4","size":2'
while read -r line; do
  case $line in
    '{"type":"call",'*)
      id=${line#*\"session\":} && id='"session":'${id%%,\"turn\":*}
      session=${id#*:\"} && session=${session%%\"*}
      echo "{\"type\":\"callback\",$id,\"id\":\"c1\",\"method\":\"POST\",\"path\":\"/v1/sessions/$session/blobs\",\"body\":{$body,\"offset\":0,\"data\":\"aGk=\"}}" ;;
    '{"type":"callback",'*'"status":201'*)
      echo "{\"type\":\"outcome\",$id,\"text\":\"stored\",\"attachments\":[{\"media_type\":\"image/png\",$body}]}" ;;
  esac
done`

// tracing is a plugin in a shell, whose tool writes a trace event with a context.
const tracing = `
echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"look"}]}}'
while read -r line; do
  case $line in
    '{"type":"call",'*)
      id=${line#*\"session\":} && id='"session":'${id%%,\"turn\":*}
      echo "{\"type\":\"callback\",$id,\"id\":\"c1\",\"method\":\"POST\",\"path\":\"/v1/trace\",\"body\":{\"name\":\"seen\",\"context\":{\"metadata\":{\"run\":\"r7\"}}}}" ;;
    '{"type":"callback",'*'"status":204'*)
      echo "{\"type\":\"outcome\",$id,\"text\":\"traced\"}" ;;
  esac
done`

func tracesInLines(t *testing.T, on place) {
	s := on.start(t, calling("look", `{}`)...)
	var seen atomic.Pointer[api.TraceRecord]
	s.TraceTo = func(r api.TraceRecord) {
		if r.Event.Type == api.TraceCustom {
			seen.Store(&r)
		}
	}
	s.allowing(wire.TraceOperation)
	s.node()
	adapter, err := stdio.New(s.Ctx, stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", tracing}})
	runtest.WantError(t, "adapter", err, nil)
	t.Cleanup(adapter.Close)
	s.instance(remote.Config{Plugin: adapter})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "traced")
	got := seen.Load()
	if got == nil {
		t.Fatal("got no trace, want one")
	}
	runtest.DeepEqual(t, "trace", []string{got.Event.Name, string(got.Context.Session), string(got.Context.Effect), got.Context.Metadata["plugin.notes.run"]}, []string{"plugin.notes.seen", string(id), "t1/0/0", "r7"})
}

func storesInLines(t *testing.T, on place) {
	s := on.start(t, calling("look", `{}`)...)
	s.allowing("storeBlob")
	s.node()
	adapter, err := stdio.New(s.Ctx, stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", storing}, Dir: t.TempDir()})
	runtest.WantError(t, "adapter", err, nil)
	t.Cleanup(adapter.Close)
	s.instance(remote.Config{Plugin: adapter})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "stored")
	list := harness.Find[*events.ToolReturned](s.System, id)[0].Results[0].Attachments
	runtest.DeepEqual(t, "attachments", []string{list[0].Blob.Digest, list[0].Text}, []string{fmt.Sprintf("%x", sha256.Sum256([]byte("hi"))), ""})
}
