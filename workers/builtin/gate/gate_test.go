package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

func TestRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, tool, args string
		allows, matches  bool
	}{
		{"run", "run", `{}`, true, true},
		{"run", "runs", `{}`, true, false},
		{"*", "any", `{}`, false, true},
		{"srv__*", "srv__read", `{}`, true, true},
		{"srv__*", "srv__read", `{}`, false, true},
		{"srv__*", "srv_read", `{}`, true, false},
		{"srv__read*:docs/*", "srv__read_file", `{"path":"docs/a"}`, true, true},
		{"srv__read*:docs/*", "srv__write_file", `{"path":"docs/a"}`, true, false},
		{"run:go test *", "run", `{"command":"go test ./..."}`, true, true},
		{"run:go test *", "run", `{"command":" go test ./... "}`, true, true},
		{"run:go test *", "run", `{"command":"go vet ./..."}`, true, false},
		{"run:go test *", "run", `{}`, true, false},
		{"run:go test *", "run", `[]`, true, false},
		{"run:go test *", "run", `{"command":"go test ./...; rm -rf ."}`, true, false},
		{"run:go test *", "run", `{"command":"go test $(rm -rf .)"}`, true, false},
		{"run:go test *", "run", `{"command":"go test\nrm -rf ."}`, true, false},
		{"run:go test *", "run", `{"command":"go test ./...; rm -rf ."}`, false, true},
		{"run:*rm *", "run", `{"command":"true && rm -rf ."}`, false, true},
		{"run:go test *", "run", `{"command":"go test .","path":"x"}`, true, false},
		{"run:x", "run", `{"command":"rm x","path":"x"}`, true, false},
		{"run", "run", `{"command":"rm x","path":"x"}`, true, true},
		{"write:*.\u00e9nv", "write", `{"path":"a.E\u0301NV"}`, false, true},
		{"write:*.secrets", "write", `{"path":"a.\u017fecret\u017f"}`, false, true},
		{"run:ls | wc", "run", `{"command":"ls | wc"}`, true, true},
		{"run:a*b*c", "run", `{"command":"axbxbxc"}`, true, true},
		{"run:a*b*c", "run", `{"command":"axbxbxcd"}`, true, false},
		{"write:docs/*", "write", `{"path":"docs/a/b.md"}`, true, true},
		{"write:docs/*", "write", `{"path":"./docs//a"}`, true, true},
		{"write:docs/*", "write", `{"path":"docs/../secret"}`, true, false},
		{"write:docs/*", "write", `{"path":"docs/a;b"}`, true, true},
	} {
		o := Options{Deny: []string{tc.rule}, Allow: []string{tc.rule}}
		s, err := gate{}.subjectOf(plugin.ToolContext{Args: json.RawMessage(tc.args)})
		runtest.NoError(t, err)
		got := o.denies(tc.tool, s)
		if tc.allows {
			got = o.allows(tc.tool, s)
		}
		if got != tc.matches {
			t.Errorf("%s of %s %s, allows %v: got %v, want %v", tc.rule, tc.tool, tc.args, tc.allows, got, tc.matches)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	runtest.WantError(t, "good rules", (Options{Allow: []string{"a", "*", "srv__*"}, Ask: []string{"a:b:c*"}}).Check(), nil)
	err := Options{Allow: []string{""}, Ask: []string{"a b"}, Deny: []string{"a:"}}.Check()
	for _, want := range []string{`allow: rule "": want TOOL`, `ask: rule "a b": want`, `deny: rule "a:": the pattern is empty`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bad rules: got %v, want %q in it", err, want)
		}
	}
}

// TestArgumentsThatToolsReadDifferently has fields twice, as one parser reads the first and another one the last, and
// some without regard to case. The gate cannot know which value the tool reads.
func TestArgumentsThatToolsReadDifferently(t *testing.T) {
	t.Parallel()
	g := gate{o: Options{Allow: []string{"*"}}}
	for _, name := range []string{"path", "command", "cwd"} {
		for args, refused := range map[string]bool{
			`{"NAME":"a"}`:                                 false,
			`{"NAME":"a","other":"b","NAME":"c"}`:          true,
			`{"NAME":"a","UPPER":"c"}`:                     true,
			`{"UPPER":"a","x":[{"y":1}],"NAME":"c"}`:       true,
			`{"x":{"y":"z"},"NAME":"a","NAME":null}`:       true,
			`{"NAME":"a","x":{"NAME":"b"}}`:                false,
			`{"NAME":"a","x":["NAME","UPPER"],"y":"NAME"}`: false,
			`{"x":"NAME","NAME":"UPPER"}`:                  false,
		} {
			text := strings.NewReplacer("NAME", name, "UPPER", strings.ToUpper(name)).Replace(args)
			list, err := g.decide(t.Context(), plugin.ToolContext{Tool: "run", Args: json.RawMessage(text)})
			if got := len(list) == 1 && list[0].Kind == events.DirectiveAbort; err != nil || got != refused {
				t.Errorf("%s: got %v, %v, want refused %v", text, list, err, refused)
			}
		}
	}
}
