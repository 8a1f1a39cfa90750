package gate

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// TestEnvironmentOfCall: a path is judged in the environment in which the call runs, and the question names one that the call does.
func TestEnvironmentOfCall(t *testing.T) {
	t.Parallel()
	all := plugin.Environments{"ci": {Dir: filepath.Join(t.TempDir(), "ci"), ByCall: true}, "own": {Dir: filepath.Join(t.TempDir(), "own")}}
	g := gate{Options{Ask: []string{"*"}}, t.TempDir()}
	ask := func(session, args string) ([]plugin.Directive, error) {
		call := plugin.Call{Run: plugin.Running{Environment: func(named string) (plugin.Environment, error) { return all.For(session, named) }}}
		return g.decide(t.Context(), plugin.ToolContext{Call: call, Tool: "run_command", Args: json.RawMessage(args)})
	}
	for _, c := range []struct{ session, args, place, question string }{
		{"own", `{"command":"x","cwd":"` + all["own"].Dir + `/sub"}`, "sub", ", which is sub"},
		{"own", `{"command":"x","cwd":"` + all["ci"].Dir + `/sub","environment":"ci"}`, "sub", ", which is sub, in the environment ci"},
		{"", `{"command":"x","cwd":"` + all["ci"].Dir + `/sub"}`, all["ci"].Dir + "/sub", "/sub"},
		{"own", `{"command":"x","cwd":"sub","environment":"prod"}`, "sub", "in sub"},
	} {
		list, err := ask(c.session, c.args)
		if err != nil || len(list) != 2 || list[0].Kind != events.DirectiveJudgePlaces || string(list[0].Payload) != `{"cwd":"`+c.place+`"}` || !strings.HasSuffix(list[1].Message, c.question) {
			t.Errorf("%s in %q: got %+v, %v, want the place %s and a question with %q", c.args, c.session, list, err, c.place, c.question)
		}
	}
	if _, err := ask("gone", `{"command":"x","cwd":"sub"}`); err == nil || !strings.Contains(err.Error(), `has no "gone"`) {
		t.Errorf("a place in no environment: got %v, want the name", err)
	}
	if list, err := ask("gone", `{"command":"x"}`); err != nil || len(list) != 1 {
		t.Errorf("no place: got %v, %v, want a question", list, err)
	}
}
