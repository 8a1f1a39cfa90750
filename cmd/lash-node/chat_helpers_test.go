package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// scriptedModel is an OpenAI-compatible model. The prompt selects its reply:
//
//	write FILE   calls write_file, and reports the result
//	attack       replies with the test's text
//	busy         fails once, then replies as to any other prompt
//	hold         streams one and a half lines, and the rest after release
//	else         replies "heard: " and the prompt
type scriptedModel struct {
	url     string
	blocked chan struct{} // one message for each reply that waits for release
	release chan struct{} // closed: no reply waits any more
	extra   atomic.Value  // the reply to attack
	busy    atomic.Bool   // it has failed once
}

func newScriptedModel(t *testing.T) *scriptedModel {
	t.Helper()
	m := &scriptedModel{blocked: make(chan struct{}, 16), release: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"},{"id":"m2"}]}`)
			return
		}
		m.reply(w, r)
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *scriptedModel) reply(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request llm.Request
	if err == nil {
		request, err = llmtest.OpenAI{}.Read(body)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"malformed"}}`, http.StatusBadRequest)
		return
	}
	last := request.Messages[len(request.Messages)-1].Parts
	prompt := ""
	for _, p := range last {
		prompt += p.Text
	}
	result := last[len(last)-1].Kind == events.PartToolResult
	w.Header().Set("Content-Type", "text/event-stream")
	command, rest, _ := strings.Cut(prompt, " ")
	reply := llmtest.Text("heard: " + prompt)
	switch {
	case result:
		reply = llmtest.Text("the tool said: " + prompt)
	case command == "write":
		args, _ := json.Marshal(map[string]string{"path": rest, "content": "hello"})
		reply = llmtest.Calls(events.Part{Call: "c", Tool: "write_file", Args: args})
	case command == "call":
		reply = llmtest.Calls(events.Part{Call: "c", Tool: rest, Args: json.RawMessage("{}")})
	case command == "attack":
		reply = llmtest.Text(m.extra.Load().(string))
	case command == "hold":
		reply = llmtest.Text("the first line\nthe second ")
	case command == "busy" && !m.busy.Swap(true):
		http.Error(w, `{"error":{"message":"come back later"}}`, http.StatusServiceUnavailable)
		return
	case command == "fail":
		http.Error(w, `{"error":{"message":"this model does not want to"}}`, http.StatusBadRequest)
		return
	}
	text, end := llmtest.OpenAI{}.Stream(reply)
	if command != "hold" || result {
		_, _ = io.WriteString(w, text+end)
		return
	}
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
	m.blocked <- struct{}{}
	select {
	case <-m.release:
	case <-r.Context().Done():
		return
	}
	more, _ := llmtest.OpenAI{}.Stream(llmtest.Text("line ends here"))
	_, _ = io.WriteString(w, more+end)
}

// awaitBlocked waits until a reply waits for release.
func (m *scriptedModel) awaitBlocked(t *testing.T) {
	t.Helper()
	bustest.Receive(t, "a reply that is held", m.blocked)
}

// chatTerminal is a chat process in a terminal of its own.
type chatTerminal struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	mu    sync.Mutex
	more  *sync.Cond
	raw   strings.Builder
	from  int // offset in the text: sees skips what it has matched before
	ended bool
}

// sit runs lash-node chat in a terminal of 24 rows and 100 columns.
func sit(t *testing.T, env []string, args ...string) *chatTerminal {
	t.Helper()
	cmd := exec.CommandContext(limited(t), os.Args[0])
	cmd.Args = append([]string{"lash-node", "chat"}, args...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0", "TERM=xterm-256color", "NO_COLOR=1", "USER=ann")
	cmd.Env = append(cmd.Env, env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	runtest.NoError(t, err)
	s := &chatTerminal{t: t, cmd: cmd, tty: tty}
	s.more = sync.NewCond(&s.mu)
	go s.read() // ends with the process
	t.Cleanup(func() { _ = tty.Close() })
	return s
}

func (s *chatTerminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.raw.Write(buf[:n])
		s.ended = err != nil
		s.mu.Unlock()
		s.more.Broadcast()
		if err != nil {
			return
		}
	}
}

// types sends keys once the program reads them. Before that, the terminal itself would edit the line.
func (s *chatTerminal) types(keys string) {
	s.t.Helper()
	s.mu.Lock()
	for !strings.Contains(s.raw.String(), ansi.SetModeBracketedPaste) && !s.ended {
		s.more.Wait()
	}
	s.mu.Unlock()
	_, err := io.WriteString(s.tty, keys)
	runtest.NoError(s.t, err)
}

// send sends a line.
func (s *chatTerminal) send(line string) { s.types(line + "\r") }

// await waits for texts, one after the other, after the last match.
func (s *chatTerminal) await(list ...string) {
	s.t.Helper()
	for _, text := range list {
		s.awaitAll(text)
	}
}

// awaitAll waits for all texts after the last match, in any order.
func (s *chatTerminal) awaitAll(list ...string) {
	s.t.Helper()
	deadline := time.AfterFunc(4*time.Minute, func() { s.mu.Lock(); s.ended = true; s.mu.Unlock(); s.more.Broadcast() })
	defer deadline.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		shown := ansi.Strip(s.raw.String())
		shown = shown[min(s.from, len(shown)):]
		end, missing := 0, ""
		for _, text := range list {
			at := strings.Index(shown, text)
			if at < 0 {
				missing = text
			}
			end = max(end, at+len(text))
		}
		if missing == "" {
			s.from += end
			return
		}
		if s.ended {
			s.t.Fatalf("%q: want %q behind what was seen, got %q", s.cmd.Args[1:], missing, shown)
		}
		s.more.Wait()
	}
}

// output is all output so far, with the control sequences.
func (s *chatTerminal) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

// session is the session id that the chat prints.
func (s *chatTerminal) session() string {
	s.t.Helper()
	s.await(", model ")
	_, rest, _ := strings.Cut(ansi.Strip(s.output()), "session ")
	id, _, _ := strings.Cut(rest, ",")
	return id
}

// quit ends the chat with a key, and checks the exit code.
func (s *chatTerminal) quit(key string, want int) {
	s.t.Helper()
	if key != "" {
		s.types(key)
	}
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != want {
		s.t.Errorf("exit code: got %d, want %d; shown %q", got, want, ansi.Strip(s.output()))
	}
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

// nodeFor starts a node with the model m and the plugin files, whose writes need an approval.
func nodeFor(t *testing.T, m *scriptedModel) (s *serving, root string) {
	t.Helper()
	root = t.TempDir()
	s = serveModel(t, m.url, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0", "--plugins", "default,files", "--root", root)
	return s, root
}

// piped is lash-node chat without a terminal.
type piped struct {
	t   *testing.T
	cmd *exec.Cmd
	out bytes.Buffer // complete once the process has ended
	err *tail
}

func newPiped(t *testing.T, in string, args ...string) *piped {
	t.Helper()
	s := &piped{t: t, cmd: exec.CommandContext(limited(t), os.Args[0])}
	s.cmd.Args = append([]string{"lash-node", "chat"}, args...)
	s.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0", "USER=ann")
	s.cmd.Stdin, s.cmd.Stdout = strings.NewReader(in), &s.out
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	runtest.NoError(t, err)
	s.err = tailOf(stderr)
	return s
}

// until waits for a line of standard error that contains a text.
func (s *piped) until(text string) string {
	s.t.Helper()
	var before []string
	for s.err.Scan() {
		if line := s.err.Text(); strings.Contains(line, text) {
			return line
		}
		before = append(before, s.err.Text())
	}
	s.t.Fatalf("want %q on standard error, got %q", text, before)
	return ""
}

// session is the session id that the pipe prints.
func (s *piped) session() string {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.until("goes on with it"), "session ")
	id, _, _ := strings.Cut(rest, ":")
	return id
}

// pipeInto runs lash-node chat with an input, until it exits.
func pipeInto(t *testing.T, in string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	s := newPiped(t, in, args...)
	var output []string
	for s.err.Scan() {
		output = append(output, s.err.Text())
	}
	_ = s.cmd.Wait()
	return s.out.String(), strings.Join(output, "\n"), s.cmd.ProcessState.ExitCode()
}
