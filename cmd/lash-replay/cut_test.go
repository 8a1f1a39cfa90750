package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// printed is what a command prints.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, problems bytes.Buffer
	if code := run(t.Context(), args, &program.Streams{Out: &out, Err: &problems}); code != 0 {
		t.Fatalf("%v: got code %d, %s", args, code, &problems)
	}
	return out.Bytes()
}

// TestLongAtIsAnEarlierEnd compares what each command says of a history at a point with what it says of an archive that ends
// there. Only the place of the session, and the name of the file, differ.
func TestLongAtIsAnEarlierEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	runtest.NoError(t, makeStore([]string{store}))
	var last struct{ Commits events.Seq }
	runtest.NoError(t, json.Unmarshal(printed(t, "stats", "demo", "--store", store, "--json"), &last))
	for _, at := range []events.Seq{1, 2, 3, 5, last.Commits / 2, last.Commits - 1, last.Commits} {
		file := filepath.Join(dir, fmt.Sprintf("to-%d.lash", at))
		printed(t, "export", "demo", "--store", store, "--at", fmt.Sprint(at), "-o", file)
		for _, args := range [][]string{
			{"show", "demo"}, {"show", "demo", "--full"}, {"events", "demo"}, {"stats", "demo"}, {"verify", "demo"}, {"check", "demo"}, {"events", "demo", "--follow"},
		} {
			if !slices.Contains(args, "--full") {
				args = append(args, "--json")
			}
			got := printed(t, slices.Concat(args, []string{"--store", store, "--at", fmt.Sprint(at)})...)
			want := printed(t, slices.Concat(args, []string{"--file", file})...)
			if !bytes.Equal(got, want) {
				t.Errorf("%v --at %d: got %s, want as of the archive that ends there: %s", args, at, got, want)
			}
		}
	}
}

// TestLongAtATime reads a whole source as it was before its second session began.
func TestLongAtATime(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	runtest.NoError(t, makeStore([]string{store}))
	var first struct {
		Time string
		Seq  events.Seq
	}
	for line := range bytes.Lines(printed(t, "events", "demo", "--store", store, "--json", "--at", "2")) {
		runtest.NoError(t, json.Unmarshal(line, &first))
	}
	at := []string{"--store", store, "--json", "--at", first.Time}
	var list []struct {
		ID     events.SessionID
		Seq    events.Seq
		Queued int
	}
	runtest.NoError(t, json.Unmarshal(printed(t, append([]string{"ls"}, at...)...), &list))
	if len(list) != 1 || list[0].ID != "demo" || list[0].Seq != first.Seq || list[0].Queued != 1 {
		t.Errorf("ls: got %+v, want demo with a turn that waits, at sequence %d", list, first.Seq)
	}
	for text, want := range map[string]int{"please do t1": 1, "please do t2": 0} {
		var out searchOutput
		runtest.NoError(t, json.Unmarshal(printed(t, append([]string{"search", text}, at...)...), &out))
		if len(out.Sessions) != want || out.Searched != 1 {
			t.Errorf("search of %q: got %+v, want %d sessions of one", text, out, want)
		}
	}
	for _, args := range [][]string{{"verify", "--all"}, {"check"}, {"stats"}} {
		var out struct{ Sessions int }
		runtest.NoError(t, json.Unmarshal(printed(t, append(args, at...)...), &out))
		if out.Sessions != 1 {
			t.Errorf("%v: got %d sessions, want the one that had begun", args, out.Sessions)
		}
	}
}

// TestAtRefused gives points that a command cannot use. The error says which one it wants.
func TestAtRefused(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	runtest.NoError(t, makeStore([]string{store}))
	for args, want := range map[string]string{
		"ls --at 3":                   "--at 3: a sequence or an event is of one session: name the session, or give a time",
		"search x --at 3":             "--at 3: a sequence or an event is of one session",
		"stats --at 3":                "--at 3: a sequence or an event is of one session",
		"export demo -o x --at 99999": "--at 99999: the history of demo has the sequences 1 to",
		"events demo --at 1999-01-01": "--at 1999-01-01: the history of demo begins later",
		"diff demo --at 3":            "--at: diff takes a point with each session",
		"ui --at 3":                   "--at: the page moves through time by itself",
	} {
		var out, problems bytes.Buffer
		code := run(t.Context(), append(strings.Fields(args), "--store", store), &program.Streams{Out: &out, Err: &problems})
		if code != exitError || !strings.Contains(problems.String(), want) {
			t.Errorf("%s: got %d and %q, want %q", args, code, &problems, want)
		}
	}
}
