package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// rerunModel is a model of another kind than the recorded one: with the instructions "Be long." it asks for arguments that
// the recording lacks, and answers otherwise.
func rerunModel(t *testing.T, seen *atomic.Value) string {
	t.Helper()
	return llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		all, err := json.Marshal(req)
		if err != nil {
			t.Error(err)
		}
		long := bytes.Contains(all, []byte("Be long."))
		args, answer := `{ "b":2, "a":2 }`, "4."
		if long {
			args, answer = `{"a":3,"b":1}`, "It is four."
		}
		results := llmtest.Results(req)
		if len(results) == 0 {
			return llmtest.Calls(events.Part{Call: "x", Tool: "add", Args: []byte(args)})
		}
		seen.Store(results[len(results)-1].Text)
		return llmtest.Text(answer)
	})
}

func rerun(t *testing.T, url string, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(limited(t), append([]string{"rerun"}, args...), &streams{Out: &out, Err: &errs, Env: func(name string) string {
		if name == "OPENAI_BASE_URL" {
			return url
		}
		return ""
	}})
	return out.String(), errs.String(), code
}

// TestLongRerun runs a recorded turn again: with equal arguments the call gets the recorded result, and nothing changes. With
// other instructions the call has none, and the change is shown.
func TestLongRerun(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	url, dir := rerunModel(t, &seen), t.TempDir()
	recorded := filepath.Join("..", "lash-replay", "testdata", "archives", "answered.lash")
	out, errs, code := rerun(t, url, recorded, "--model", "m", "--json")
	var report rerunReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || len(report.Sessions) != 1 {
		t.Fatalf("rerun: got code %d, %s%s, %v", code, out, errs, err)
	}
	same := report.Sessions[0]
	if report.Changed != 0 || same.Served != 1 || same.Missed != 0 || len(same.Turns) != 1 || same.Turns[0].Rerun.Answer != "4." || same.Turns[0].Rerun.End != events.EndFinished || same.Skipped != 1 {
		t.Errorf("rerun of the same calls: got %s, want nothing changed, one recorded result, one skipped input", out)
	}
	if got, _ := seen.Load().(string); got != "4" {
		t.Errorf("result of the call: got %q, want the recorded one", got)
	}

	file := writeFile(t, dir, "long.md", []byte("Be long."))
	kept := filepath.Join(dir, "kept")
	out, errs, code = rerun(t, url, recorded, "--model", "m", "--instructions", file, "--scorer", `grep -o '"missed":1' | wc -l`, "-o", kept)
	for _, want := range []string{`"4." → "It is four."`, "1 → 1, changed", "0 calls got recorded results, 1 had none", "score 1", "session answered-rerun in "} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("rerun with other instructions: got code %d, %s%s, want %q", code, out, errs, want)
		}
	}
	if got, _ := seen.Load().(string); !strings.HasPrefix(got, "[failed] The recording has no result of add") {
		t.Errorf("result of a call that was not recorded: got %q, want that there is none", got)
	}
	if _, errs, _ = rerun(t, url, filepath.Join(kept, "answered-rerun.lash")); !strings.Contains(errs, "--model model-1: ") {
		t.Errorf("rerun without --model: got %s, want the model that the replies name", errs)
	}
	imports(t, filepath.Join(dir, "store"), filepath.Join(kept, "answered-rerun.lash")) // it is a whole history
}

// TestLongRerunLive has a model call a tool of a plugin. With live results the tool runs, and with recorded ones it does not.
func TestLongRerunLive(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"live": "4 bytes written to note", "recorded": "[failed] The recording has no result of write_file"} {
		var seen atomic.Value
		url := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
			results := llmtest.Results(req)
			if len(results) == 0 {
				return llmtest.Calls(events.Part{Call: "x", Tool: "write_file", Args: []byte(`{"path":"note","content":"milk"}`)})
			}
			seen.Store(results[len(results)-1].Text)
			return llmtest.Text("done")
		})
		root := t.TempDir()
		recorded := filepath.Join("..", "lash-replay", "testdata", "archives", "answered.lash")
		out, errs, code := rerun(t, url, recorded, "--model", "m", "--tool-results", mode, "--plugins", "files", "--root", root, "--json")
		if code != exitOK {
			t.Fatalf("%s: got code %d, %s%s", mode, code, out, errs)
		}
		if got, _ := seen.Load().(string); !strings.HasPrefix(got, want) {
			t.Errorf("%s: result of the call: got %q, want %q", mode, got, want)
		}
		data, err := os.ReadFile(filepath.Join(root, "note")) //nolint:gosec // a folder of the test
		if ran := err == nil && string(data) == "milk"; ran != (mode == "live") {
			t.Errorf("%s: file: got %q, %v", mode, data, err)
		}
	}
}

// TestRerunLoosensNoRule checks that options of recorded turns for plugins, such as the rules of gate, do not reach tools that run.
func TestRerunLoosensNoRule(t *testing.T) {
	t.Parallel()
	in := events.TurnInput{Plugins: map[string]string{"gate": `{"allow":["*"]}`}, Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}
	for mode, options := range map[string]int{"live": 0, "recorded": 1} {
		got := (&rerunCmd{ToolResults: mode}).input(in)
		if len(got.Plugins) != options || len(got.Parts) != 1 {
			t.Errorf("%s: got %+v, want %d options and the text", mode, got, options)
		}
	}
}

// TestLongRerunFolder evaluates a folder: a row for each session, and the mean of the scores.
func TestLongRerunFolder(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	url := rerunModel(t, &seen)
	out, errs, code := rerun(t, url, filepath.Join("..", "lash-replay", "testdata", "archives"), "--model", "m", "--scorer", "wc -l")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) < 4 || !strings.HasPrefix(lines[0], "SESSION") || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "answered ") }) ||
		!strings.Contains(lines[len(lines)-1], "mean score 0") {
		t.Errorf("rerun of a folder: got code %d, %s%s, want a table with the mean score", code, out, errs)
	}
}

func TestRerunRefuses(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	url := rerunModel(t, &seen)
	recorded := filepath.Join("..", "lash-replay", "testdata", "archives", "answered.lash")
	empty := filepath.Join(t.TempDir(), "empty")
	runtest.NoError(t, os.Mkdir(empty, 0o700))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{recorded, "--from", "t9"}, "--from t9: the session has no such turn that ended"},
		{[]string{"s"}, "lash-replay export SESSION -o FILE writes the archive of a session"},
		{[]string{empty}, "there is no archive in the folder"},
		{[]string{"rerun_test.go"}, "is not an archive: lash-replay export writes one"},
		{[]string{recorded, "--model", "m", "--scorer", "echo good"}, `--scorer printed "good`},
		{[]string{recorded, "--instructions", "nowhere"}, "--instructions: "},
	} {
		out, errs, code := rerun(t, url, tc.args...)
		if code != exitFailed || !strings.Contains(errs, tc.want) {
			t.Errorf("%q: got code %d, %s%s, want %q", tc.args, code, out, errs, tc.want)
		}
	}
}
