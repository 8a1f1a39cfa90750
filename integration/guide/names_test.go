package guide

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLongCommandsAndFlags checks that every command and flag in the guides' sentences is in the programs' --help, and
// that every file and folder exists in the repository.
func TestLongCommandsAndFlags(t *testing.T) {
	t.Parallel()
	programs := maps.Clone(ours)
	programs["bench"], programs["soak"] = "./integration/bench", "./integration/soak"
	helps := helps{t: t, known: make(map[string]string), at: open(t, t.TempDir(), environment(t, programs))}
	flag := regexp.MustCompile(`^--[a-z][a-z-]+`)
	for _, file := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GUIDE.md", "BENCHMARKS.md", "deploy/nats/OPERATING.md"} {
		named := 0
		for _, span := range spans(t, file) {
			tokens := installed(strings.Fields(span), programs)
			program := tokens[0]
			known := programs[program] != ""
			if flag.MatchString(program) {
				known, program = true, ""
			}
			if !known {
				if strings.Contains(span, "/") {
					runtest.WantError(t, "exists", exists(file, span), nil)
				}
				continue
			}
			named++
			command := program
			if program != "" && len(tokens) > 1 && regexp.MustCompile(`^[a-z-]+$`).MatchString(tokens[1]) && !flag.MatchString(tokens[1]) {
				command += " " + tokens[1]
			}
			if len(tokens) > 2 && strings.Contains(helps.of(command), "\n  "+tokens[1]+" "+tokens[2]+" ") { // a command of a group
				command += " " + tokens[2]
			}
			help := helps.of(command)
			for _, token := range tokens {
				if name := flag.FindString(token); name != "" && !regexp.MustCompile(regexp.QuoteMeta(name)+`[= \n]`).MatchString(help) {
					t.Errorf("%s: `%s`: %s is in no --help of %q", file, span, name, command)
				}
			}
		}
		if named < map[string]int{"README.md": 14, "GUIDE.md": 40, "deploy/nats/OPERATING.md": 40}[file] {
			t.Errorf("%s: names %d commands and flags, want more", file, named)
		}
	}
}

// installed is a command line with the name of the program, where it runs the program's package: `go run ./cmd/lash-node serve` is
// `lash-node serve`.
func installed(tokens []string, programs map[string]string) []string {
	if len(tokens) > 2 && tokens[0] == "go" && tokens[1] == "run" {
		for name, pkg := range programs {
			if tokens[2] == pkg {
				return append([]string{name}, tokens[3:]...)
			}
		}
	}
	return tokens
}

// TestRunIsCommand has command lines of both forms.
func TestRunIsCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"go run ./cmd/lash-node serve --http A": "lash-node serve --http A",
		"go run ./cmd/lash-replay":              "lash-replay",
		"go run ./examples/slack":               "go run ./examples/slack",
		"lash-node chat":                        "lash-node chat",
		"go run":                                "go run",
	} {
		runtest.Equal(t, line, strings.Join(installed(strings.Fields(line), ours), " "), want)
	}
}

// helps has the --help output of commands. The entry "" has the output of all commands.
type helps struct {
	t     *testing.T
	at    *terminal
	known map[string]string
}

func (h *helps) of(command string) string {
	h.t.Helper()
	if command == "" {
		if h.known[""] == "" {
			h.known[""] = h.all("lash-node") + h.all("lash-replay")
		}
		return h.known[""]
	}
	if h.known[command] == "" {
		printed, err := h.at.run(command+" --help", func(string) bool { return false })
		if err != nil {
			h.t.Fatalf("%s --help: %v\n%s", command, err, printed)
		}
		h.known[command] = printed
	}
	return h.known[command]
}

// all has the --help output of a program, and of each command that it lists.
func (h *helps) all(program string) string {
	h.t.Helper()
	text := h.of(program)
	_, list, _ := strings.Cut(text, "\nCommands:\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+(?: [a-z-]+)?)(?:  |$)`).FindAllStringSubmatch(list, -1) {
		text += h.of(program + " " + m[1])
	}
	return text
}

// spans are the code spans of a file, outside of blocks.
func spans(t *testing.T, file string) (list []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file of this repository
	runtest.NoError(t, err)
	text := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(data), "")
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// isPath is the form of a relative path.
var isPath = regexp.MustCompile(`^(\./)?[\w.@-]+(/[\w.@*-]+)*/?$`)

// elsewhere are relative paths of the guides that are not in this repository.
var elsewhere = map[string]string{
	"plugins/NAME.json": "in a node's store",
	"certs/":            "made by make-certs.sh",
}

// exists checks a path: it is in the repository, beside the guide, or in the directory above it.
func exists(file, path string) error {
	if !isPath.MatchString(path) || elsewhere[path] != "" || strings.Contains(path, "TENANT") {
		return nil // an address, a path of the reader's machine, a pattern with a name to fill in, or one of the list
	}
	for _, from := range []string{".", filepath.Dir(file), filepath.Join(filepath.Dir(file), "..")} {
		if found, err := filepath.Glob(filepath.Join(root, from, path)); err == nil && len(found) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: names %s, which there is not", file, path)
}

// TestWrongPathIsFound has paths with a mistake at each place.
func TestWrongPathIsFound(t *testing.T) {
	t.Parallel()
	const readme, guide = "README.md", "deploy/nats/OPERATING.md"
	for _, c := range []struct {
		file, path string
		ok         bool
	}{
		{readme, "events/kinds.go", true},
		{readme, "evnts/kinds.go", false},
		{readme, "events/kind.go", false},
		{readme, "workers/llm/*", true},
		{readme, "workes/llm/*", false},
		{readme, "/v1/openapi.json", true},
		{guide, "cluster/s1.conf", true},
		{guide, "clustr/s1.conf", false},
		{guide, "grafana/lash.json", true},
		{guide, "roles/", true},
		{guide, "rolls/", false},
		{guide, "http://127.0.0.1/x", true},
	} {
		if err := exists(c.file, c.path); (err == nil) != c.ok {
			t.Errorf("%s, %s: got %v, want ok %t", c.file, c.path, err, c.ok)
		}
	}
}
