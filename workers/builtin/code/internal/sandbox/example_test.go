package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/workers/builtin/code/internal/sandbox"
)

// library is a caller with one tool.
type library struct{}

func (library) Call(_ context.Context, c sandbox.Call) (json.RawMessage, error) {
	var args struct{ Word string }
	err := json.Unmarshal(c.Args, &args)
	return fmt.Appendf(nil, `{"word":%q,"pages":%d}`, args.Word, len(args.Word)), err
}

func (library) Start(context.Context, sandbox.Call) (string, error) { return "task", nil }

func (library) Await(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage("1"), nil
}

func (library) Attachments(context.Context) (json.RawMessage, error) {
	return json.RawMessage("[]"), nil
}

func (library) Message(text, _ string) { fmt.Println("message:", text) }

func ExampleRun() {
	reply := "I will look both up.\n```starlark\n" +
		"found = gather([call(look, word=w) for w in [\"event\", \"log\"]])\n" +
		"def total():\n    return sum_of([f[\"pages\"] for f in found])\n" +
		"def sum_of(list):\n    n = 0\n    for x in list: n += x\n    return n\n" +
		"message(\"looked up\")\nprint(found[0][\"word\"])\n```\n"
	before, code, lang, _ := sandbox.Fence(reply)
	fmt.Println(strings.TrimSpace(before), lang)

	tools := []string{"look"}
	first, err := sandbox.Run(context.Background(), sandbox.Limits{}, sandbox.Request{Code: code, Tools: tools}, library{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(first.Output)

	// The next program of the session finds variables and functions.
	second, err := sandbox.Run(context.Background(), sandbox.Limits{}, sandbox.Request{
		Code: "finish(total())", Tools: tools, State: first.State, AcceptFinish: true,
	}, library{})
	fmt.Println(string(second.Value), second.Finished, second.Dirty, err)
	// Output:
	// I will look both up. starlark
	// message: looked up
	// event
	// 8 true false <nil>
}
