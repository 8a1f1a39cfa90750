package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongServeSaysThatThereIsNoModel starts nodes with and without a provider. A node without a provider prints that it has no model, and which variables to set.
func TestLongServeSaysThatThereIsNoModel(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"none": nil, "scripted": {"--provider", "scripted"}, "model": {"--model", "m"}} {
		url := ""
		if name == "model" {
			url = newScriptedModel(t).url
		}
		node := serveIn(t, []string{"OPENAI_BASE_URL=" + url}, append(args, "--store", t.TempDir(), "--listen", "127.0.0.1:0")...)
		said := slices.ContainsFunc(node.lines, func(line string) bool {
			return strings.HasPrefix(line, "lash-node: no model: ") && strings.Contains(line, "OPENAI_API_KEY") && strings.Contains(line, "--model")
		})
		if said != (name == "none") {
			t.Errorf("%s: got %q", name, node.lines)
		}
		node.stop(t, syscall.SIGTERM)
	}
}

// TestServeNamesItsServers starts a node on an existing server: a sentence says which servers store the sessions, and what decides when they sync.
func TestServeNamesItsServers(t *testing.T) {
	t.Parallel()
	server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	runtest.NoError(t, err)
	defer server.Stop()
	node := served(t, "--nats", server.URL(), "--store", t.TempDir())
	defer node.stop(t, syscall.SIGTERM)
	want := "lash-node: servers " + server.URL() + " store the sessions, one copy of each; how often they sync to disk is in their configuration (sync_interval)"
	if !slices.Contains(node.lines, want) {
		t.Errorf("got %q, want %q", node.lines, want)
	}
}

// TestChatWithoutModelSaysWhatToDo begins a chat where no node runs: without a key, and with a key and without a model.
func TestChatWithoutModelSaysWhatToDo(t *testing.T) {
	t.Parallel()
	listing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"large"},{"id":"b-small"}]}`)
	}))
	t.Cleanup(listing.Close)
	store := t.TempDir()
	for url, want := range map[string]string{
		"":          "lash-node: no node runs in " + store + ", and there is no model for one that starts here: set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY and name a model with --model, ",
		listing.URL: "lash-node: --model is missing: openai has b-small, large: --model NAME chooses one",
	} {
		var errs strings.Builder
		code := run(limited(t), []string{"chat", "--store", store}, &streams{Out: io.Discard, Err: &errs, Env: func(name string) string {
			return map[string]string{"OPENAI_BASE_URL": url}[name]
		}})
		if code != exitFailed || !strings.HasPrefix(errs.String(), want) {
			t.Errorf("with %q: got %d, %q, want %q", url, code, errs.String(), want)
		}
	}
}

// TestLongWaitingChatIsInNoLog has a chat wait for a model for longer than the interval of its checks for a node. The node's access log has the
// requests of the chat alone.
func TestLongWaitingChatIsInNoLog(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	node, _ := nodeFor(t, model)
	checks := make(chan *nats.Msg, 64)
	conn := node.open(t).Conn()
	if _, err := conn.ChanSubscribe("$JS.API.STREAM.NAMES", checks); err != nil || conn.Flush() != nil {
		t.Fatal(err)
	}
	chat := newPiped(t, "hold\n", "--store", node.store)
	model.awaitBlocked(t)
	chat.until("waiting for the model") // shown after four checks of the wait, of which the first one asks for a node
	for more := 0; more < 3; {          // a check asks for the stream of dead letters first
		if m := bustest.Receive(t, "a check of the chat", checks); bytes.Contains(m.Data, []byte("lash.dead")) {
			more++
		}
	}
	close(model.release)
	for chat.err.Scan() {
	}
	runtest.NoError(t, chat.cmd.Wait())
	node.stop(t, syscall.SIGTERM)
	log := strings.Join(node.lines, "\n")
	if strings.Contains(log, "tool_catalog") || !strings.Contains(log, `"op":"submit"`) {
		t.Errorf("got %s, want the submit and no question for a node", log)
	}
}
