package external

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestExceptionsInTypeScript has tools and hooks throw objects that have no text, texts that are too long for a message, and reject
// promises that nothing waits for. Each call and hook is answered, and the program goes on.
func TestExceptionsInTypeScript(t *testing.T) {
	t.Parallel()
	program := copyInto(t, modules(t), filepath.Join("testdata", "typescript", "hostile.mjs"))
	s := start(t)
	s.node()
	s.launch("i1", exec.CommandContext(s.Ctx, "node", program)) //nolint:gosec // a file of this test
	s.alive(1)
	c := s.client()
	c.instance = s.idOf("i1")
	for _, what := range []string{"bare", "long", "floating", "floating"} {
		c.send(t, "call", aCall("floats-"+what, "throws", `{"what":"floating"}`)).outcome() // its rejections come before the next call
		got := c.send(t, "call", aCall(what, "throws", `{"what":"`+what+`"}`)).outcome()
		runtest.Equal(t, what+": failed", got.Failure != nil, what != "floating")
		runtest.Equal(t, what+": text", got.Text, map[string]string{"floating": "floating"}[what])
		if got.Failure != nil && len(got.Failure.Message) > wire.MaxFailureMessage {
			t.Errorf("%s: a message of %d bytes, limit is %d", what, len(got.Failure.Message), wire.MaxFailureMessage)
		}
		var hooked struct{ Error json.RawMessage }
		c.ask(t, "hook", &wire.HookCall{Hook: "gate", Point: "before_turn", Invocation: "i/" + what, Session: "s", DeadlineMS: 5000, Input: what}, &hooked)
		runtest.Equal(t, what+": the hook failed", len(hooked.Error) > 0, what != "floating")
	}
}
