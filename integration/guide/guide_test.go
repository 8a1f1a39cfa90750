package guide

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

// ours are the programs that an operator has installed, by package.
var ours = map[string]string{
	"nats-server": "github.com/nats-io/nats-server/v2", "lash-node": "./cmd/lash-node", "lash-replay": "./cmd/lash-replay",
}

// model is the model endpoint of the guides' reader. It replies as the blocks show.
func model(t *testing.T) (env []string) {
	t.Helper()
	url := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		reply := replyOf(req)
		reply.Usage = events.Usage{Input: 20, Output: 8}
		return reply
	})
	return []string{"OPENAI_BASE_URL=" + url}
}

func replyOf(req llm.Request) llmtest.Reply {
	if results := llmtest.Results(req); len(results) > 0 {
		return llmtest.Text("The tool said: " + results[len(results)-1].Text)
	}
	last := req.Messages[len(req.Messages)-1].Parts
	if len(last) == 0 {
		return llmtest.Text("")
	}
	switch last[0].Text {
	case "Write to Ann that I come on Monday.":
		return llmtest.Calls(events.Part{Call: "c", Tool: "send_letter", Args: []byte(`{"To":"Ann","Text":"I come on Monday."}`)})
	case "What is it like in Oslo?":
		return llmtest.Calls(events.Part{Call: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`)})
	case "Write a note.":
		return llmtest.Calls(events.Part{Call: "c", Tool: "write_file", Args: []byte(`{"path":"note.txt","content":"Hello."}`)})
	case "Say hello.":
		return llmtest.Text("Hello.")
	case "Which city?":
		return llmtest.Text(`{"city":"Oslo"}`)
	}
	return llmtest.Text("2 + 2 is 4.")
}

// TestLongReadme runs the README in a temporary directory.
func TestLongReadme(t *testing.T) {
	t.Parallel()
	follow(t, root+"/README.md", t.TempDir(), model(t), nil)
}

// TestLongGuide runs the user's guide in a temporary directory.
func TestLongGuide(t *testing.T) {
	t.Parallel()
	follow(t, root+"/GUIDE.md", t.TempDir(), model(t), nil)
}

// TestLongOperating runs the operator's guide. The system's directories are subdirectories of a temporary one.
func TestLongOperating(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, nil, "openssl")
	dir := t.TempDir()
	free, err := busembed.FreePorts(2)
	runtest.NoError(t, err)
	servers, monitor := fmt.Sprintf("127.0.0.1:%d", free[0]), fmt.Sprintf("127.0.0.1:%d", free[1])
	paths := []string{
		"/etc/nats", filepath.Join(dir, "nats"), "/etc/lash", filepath.Join(dir, "lash"), "/var/lib/nats", filepath.Join(dir, "store"),
		"s1.nats.internal:4222", servers, "0.0.0.0:4222", servers, "127.0.0.1:8222", monitor,
		"https://id.example", "https://127.0.0.1:1", // does not answer
		"s1.nats.internal", "127.0.0.1", "s2.nats.internal", "127.0.0.2", "s3.nats.internal", "127.0.0.3",
	}
	install(t, filepath.Join(dir, "nats"), strings.NewReplacer(paths...))
	follow(t, root+"/deploy/nats/OPERATING.md", dir, model(t), ours, paths...)
}

// install copies deploy/nats.
func install(t *testing.T, to string, paths *strings.Replacer) {
	t.Helper()
	from := os.DirFS(filepath.Join(root, "deploy", "nats"))
	err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, path), 0o750))
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), []byte(paths.Replace(string(data))), 0o700) //nolint:gosec // scripts are executable
	})
	runtest.NoError(t, err)
}
