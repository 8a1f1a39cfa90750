package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	sessionclient "github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestLongServeRedact: a secret in an input, a call, a result, which is large enough for a blob, and a reply is in no message of
// any stream, and the model never gets it back.
func TestLongServeRedact(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789abcdef"
	dir := t.TempDir()
	runtest.NoError(t, os.WriteFile(filepath.Join(dir, secret+".txt"), []byte(strings.Repeat("line of "+secret+"\n", 8000)), 0o600))
	if err := os.Symlink(secret+".txt", filepath.Join(dir, "[redacted].txt")); err != nil { // the call that runs is the one that is stored
		t.Fatal(err)
	}
	var mu sync.Mutex
	var prompts []llm.Request
	model := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		mu.Lock()
		defer mu.Unlock()
		prompts = append(prompts, req)
		if len(llmtest.Results(req)) == 0 {
			return llmtest.Calls(events.Part{Call: "c0", Tool: "read_file", Args: []byte(`{"path":"` + secret + `.txt"}`)})
		}
		return llmtest.Text("your key is " + secret)
	})
	file := filepath.Join(t.TempDir(), "patterns")
	runtest.NoError(t, os.WriteFile(file, []byte("# keys\nsk-[0-9a-f]{16}\n"), 0o600))
	s := serveModel(t, model, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0", "--set", "redact="+file,
		"--plugins", "default,files", "--root", dir)
	defer s.stop(t, syscall.SIGTERM)
	b := s.open(t)
	remote, err := sessionclient.New(sessionclient.Config{Bus: b})
	runtest.NoError(t, err)
	_, err = remote.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	input := events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "my key is " + secret}}}
	_, err = remote.Submit(limited(t), "s", api.TurnRequest{ID: "t", Input: input})
	runtest.NoError(t, err)
	if r, err := remote.Await(limited(t), "s", "t"); err != nil || r.End != events.EndFinished {
		t.Fatalf("turn: got %+v, %v", r, err)
	}
	bustest.Eventually(t, "the row follows the history", func() bool {
		row, err := b.Directory().Get(limited(t), "s")
		var d follow.Directory
		return err == nil && json.Unmarshal(row.Value, &d) == nil && d.Turns == 1 && d.Running == ""
	})
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	mentions, redacted := 0, 0
	names := js.StreamNames(limited(t))
	for name := range names.Name() {
		stream, err := js.Stream(limited(t), name)
		runtest.NoError(t, err)
		for seq := stream.CachedInfo().State.FirstSeq; seq <= stream.CachedInfo().State.LastSeq; seq++ {
			msg, err := stream.GetMsg(limited(t), seq)
			if err != nil {
				continue // removed
			}
			if bytes.Contains(msg.Data, []byte(secret)) {
				t.Errorf("%s at %d of %s has the secret", msg.Subject, seq, name)
			}
			redacted += bytes.Count(msg.Data, []byte("[redacted]"))
			mentions++
		}
	}
	if redacted < 4 || mentions < 8 {
		t.Errorf("got %d messages with %d redacted texts, want those of a turn", mentions, redacted)
	}
	mu.Lock()
	defer mu.Unlock()
	if data, err := json.Marshal(prompts); err != nil || bytes.Contains(data, []byte(secret)) || len(prompts) != 2 {
		t.Errorf("got %d prompts with the secret: %t, %v, want two without", len(prompts), bytes.Contains(data, []byte(secret)), err)
	}
}
