package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongChatShared opens one session in two terminals. Each shows the prompts and the answers of the other.
func TestLongChatShared(t *testing.T) {
	t.Parallel()
	node, root := nodeFor(t, newScriptedModel(t))
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, nil, "--store", node.store)
	id := ann.session()
	ann.send("hello")
	ann.await("ann > hello", "heard: hello")
	bob := sit(t, []string{"USER=bob"}, "--store", node.store, "--session", id)
	bob.await("ann > hello", "heard: hello", ", model ")
	bob.send("good day")
	for _, s := range []*chatTerminal{ann, bob} {
		s.await("bob > good day", "heard: good day")
	}
	ann.send("write a.txt")
	for _, s := range []*chatTerminal{ann, bob} {
		s.await("ann > write a.txt", "#1 write_file", "? Let write_file run? a.txt (asks gate)", `write_file {"content":"hello","path":"a.txt"}`, "y lets it run")
	}
	bob.send("y")
	for _, s := range []*chatTerminal{ann, bob} {
		s.await("bob lets write_file run", "#1 write_file", "the tool said: ")
	}
	if got, err := os.ReadFile(filepath.Join(root, "a.txt")); string(got) != "hello" {
		t.Errorf("file: got %q, %v, want it written", got, err)
	}
	ann.send("/show")
	ann.await("arguments of write_file:", `{"content":"hello","path":"a.txt"}`, "result:")
	ann.send("write b.txt")
	bob.await("? Let write_file run? b.txt")
	ann.await("? Let write_file run? b.txt")
	bob.send("/show")
	bob.await("arguments of write_file:", `{"content":"hello","path":"b.txt"}`)
	ann.send("n not that one")
	for _, s := range []*chatTerminal{ann, bob} {
		s.await("ann refused write_file: not that one", "the tool said: [failed]")
	}
	ann.quit(ctrlD, exitOK)
	bob.send("/quit")
	bob.quit("", exitOK)
}

// TestLongChatStreams shows a reply while it streams, in every terminal. Either terminal cancels it. The streamed half
// stays on screen, marked as no reply.
func TestLongChatStreams(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	node, _ := nodeFor(t, model)
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, nil, "--store", node.store)
	id := ann.session()
	bob := sit(t, []string{"USER=bob"}, "--store", node.store, "--session", id)
	bob.session()
	for i, stop := range []string{"/cancel\r", ctrlC} {
		ann.send("hold on")
		model.awaitBlocked(t)
		for _, s := range []*chatTerminal{ann, bob} {
			s.await("ann > hold on", "the first line")
			if i == 0 { // later the text is on screen already and not drawn again
				s.await("the second")
			}
		}
		bob.types(stop)
		for _, s := range []*chatTerminal{ann, bob} {
			s.await("bob cancels the turn", "the second", "the reply above is partial: later turns do not read it", "the turn was cancelled")
		}
	}
	late := sit(t, nil, "--store", node.store, "--session", id)
	late.session()
	ann.send("hold on")
	model.awaitBlocked(t)
	later := sit(t, nil, "--store", node.store, "--session", id)
	for _, s := range []*chatTerminal{ann, bob, late, later} {
		s.await("ann > hold on", "the first line")
	}
	later.await("the second")
	close(model.release)
	for _, s := range []*chatTerminal{ann, bob, late, later} {
		s.await("the second line ends here")
	}
	for _, s := range []*chatTerminal{ann, bob, late, later} {
		s.quit(ctrlC+ctrlC, exitOK)
	}
}

// TestChatStartsNode starts a node and a session with one command. A second run continues the session.
func TestChatStartsNode(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	store, env := t.TempDir(), []string{"OPENAI_BASE_URL=" + model.url}
	first := sit(t, env, "--store", store, "--model", "m")
	id := first.session()
	first.send("hello")
	first.await("ann > hello", "heard: hello")
	other := sit(t, nil, "--store", store, "--session", id, "--model", "m2", "--root", store) // it needs no model: it uses the first terminal's node
	other.await("the one that runs has its own", "--model is of a new session: /model m2 sets it in this one")
	other.await("ann > hello", "heard: hello")
	other.send("me too")
	for _, s := range []*chatTerminal{first, other} {
		s.await("ann > me too", "heard: me too")
	}
	first.quit(ctrlD, exitOK)
	first.await("session " + id + ": lash-node chat --store ")
	other.await("the connection to the servers is lost")
	again := sit(t, env, "--store", store, "--model", "m", "--session", id)
	again.await("ann > hello", "heard: hello", "ann > me too", "heard: me too")
	again.session()
	again.send("and now")
	for _, s := range []*chatTerminal{again, other} {
		s.await("ann > and now", "heard: and now")
	}
	other.quit(ctrlD, exitOK)
	again.quit(ctrlD, exitOK)
}

// hangupIgnored is whether this process ignored SIGHUP when it began: a node of another test, in this process, receives it for a while.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

// TestLongChatHangup sends a chat that runs a node the signal of a terminal that closes: both end. Another chat starts a node on the
// same store and continues the session.
func TestLongChatHangup(t *testing.T) {
	t.Parallel()
	if hangupIgnored {
		t.Skip("this process ignores SIGHUP, as nohup has it, and so do the programs that it starts")
	}
	model := newScriptedModel(t)
	store, env := t.TempDir(), []string{"OPENAI_BASE_URL=" + model.url}
	first := sit(t, env, "--store", store, "--model", "m")
	id := first.session()
	first.send("hello")
	first.await("heard: hello")
	runtest.NoError(t, first.cmd.Process.Signal(syscall.SIGHUP))
	first.quit("", exitOK)
	again := sit(t, env, "--store", store, "--model", "m", "--session", id)
	again.await("ann > hello", "heard: hello")
	again.quit(ctrlD, exitOK)
}

// TestChatAsksAndWrites has a node with the plugin files start with the chat. The gate asks in the terminal, y lets the file
// be written, and the reply follows.
func TestChatAsksAndWrites(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	ann := sit(t, []string{"OPENAI_BASE_URL=" + newScriptedModel(t).url}, "--store", filepath.Join(t.TempDir(), "st"), "--model", "m", "--plugins", "default,files", "--root", root)
	ann.session()
	ann.send("write a.txt")
	ann.await("ann > write a.txt", "? Let write_file run? a.txt (asks gate)", `write_file {"content":"hello","path":"a.txt"}`, "y lets it run")
	file := filepath.Join(root, "a.txt")
	_, err := os.Stat(file)
	runtest.WantError(t, "file before the answer", err, os.ErrNotExist)
	ann.send("y")
	ann.await("ann lets write_file run", "the tool said: ")
	if got, err := os.ReadFile(file); string(got) != "hello" { //nolint:gosec // of this test
		t.Errorf("file: got %q, %v, want it written", got, err)
	}
	ann.quit(ctrlD, exitOK)
}

// TestLongChatConnectionLost stops the servers and starts them again. The chat reports both, and continues.
func TestLongChatConnectionLost(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	args := []string{"--store", filepath.Join(t.TempDir(), "st"), "--listen", fmt.Sprintf("127.0.0.1:%d", ports[0])}
	node := serveModel(t, model.url, args...)
	ann := sit(t, nil, "--store", node.store)
	ann.session()
	ann.send("hello")
	ann.await("heard: hello")
	runtest.NoError(t, node.cmd.Process.Kill())
	_ = node.cmd.Wait()
	ann.await("the connection to the servers is lost: waiting for it")
	ann.send("are you there") // the line says either wait, whichever was drawn last
	node = serveModel(t, model.url, args...)
	defer node.stop(t, syscall.SIGTERM)
	ann.await("connected again")
	ann.await("ann > are you there", "heard: are you there")
	ann.quit(ctrlD, exitOK)
}

// TestChatCommands types each command of the chat.
func TestChatCommands(t *testing.T) {
	t.Parallel()
	node, _ := nodeFor(t, newScriptedModel(t))
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, nil, "--store", node.store)
	id := ann.session()
	for _, say := range []struct{ line, sees string }{
		{"/model", "model: as the node chooses (its --model)"},
		{"one", "heard: one"},
		{"two", "heard: two"},
		{"/help", "/branch [NODE]"},
		{"/session", "session " + id + ": lash-node chat --store " + node.store + " --session " + id + " goes on with it"},
		{"/fly", "there is no command /fly: /help lists them"},
		{"/fork now", "/fork takes nothing behind it"},
		{"/cancel", "no turn runs"},
		{"/show", "this session has no tool calls yet"},
		{"/model", "model: model-1, as the node chose for its last reply"},
		{"/model nope", "ann set the model: nope"}, // which the list of the endpoint lacks: the node's log warns
		{"/model m2", "ann set the model: m2"},
		{"/model", "model: m2"},
		{"//help", "heard: /help"},
		{"/branch", "1 user: one"},
		{"/branch 2", "ann went back to a-"},
		{"/branch nowhere", "/branch lists them"},
		{"three", "heard: three"},
		{"/branch", "3 user: three"},
		{"/compact", "nothing to compact yet"},
		{"/fork", "a fork of " + id},
		{"", "session "},
		{"four", "heard: four"},
		{"/branch", "5 user: four"},
		{"fail", "the model call failed: "},
		{"", "this model does not want to"},
		{"/quit", "goes on with it"},
	} {
		if say.line != "" {
			ann.send(say.line)
		}
		ann.await(say.sees)
	}
	ann.quit("", exitOK)
}

// TestLongChatCompact compacts a long conversation, and continues it.
func TestLongChatCompact(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	model.extra.Store("that was long")
	node, _ := nodeFor(t, model)
	defer node.stop(t, syscall.SIGTERM)
	s := newPiped(t, "attack "+strings.Repeat("a word or two ", 8<<10), "--store", node.store)
	id := s.session()
	runtest.NoError(t, s.cmd.Wait())
	ann := sit(t, nil, "--store", node.store, "--session", id)
	ann.session()
	ann.send("/compact")
	ann.await("the conversation was compacted: the model goes on with a summary")
	ann.send("and on")
	ann.await("ann > and on", "heard: and on")
	ann.quit(ctrlD, exitOK)
}

// TestLongChatTypedAhead types lines before the chat reads keys. Each line arrives as a line of its own.
func TestLongChatTypedAhead(t *testing.T) {
	t.Parallel()
	node, _ := nodeFor(t, newScriptedModel(t))
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, nil, "--store", node.store)
	_, err := io.WriteString(ann.tty, "one\r/session\r")
	runtest.NoError(t, err)
	ann.awaitAll("goes on with it", "heard: one")
	ann.quit(ctrlD, exitOK)
}

// TestChatNeedsNoModel joins the running node of a store. The key in the environment would require --model for a new
// node.
func TestChatNeedsNoModel(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	node, _ := nodeFor(t, model)
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, []string{"OPENAI_BASE_URL=" + model.url}, "--store", node.store)
	ann.session()
	ann.send("hello")
	ann.await("heard: hello")
	ann.quit(ctrlD, exitOK)
}

// TestLongChatPortTaken starts another server, without authentication, at the former address of the store's server. The
// chat does not connect to it.
func TestLongChatPortTaken(t *testing.T) {
	t.Parallel()
	node, _ := nodeFor(t, newScriptedModel(t))
	node.stop(t, syscall.SIGTERM)
	serverAt(t, node.url)
	out, errs, code := pipeInto(t, "hello\n", "--store", node.store, "--provider", "scripted", "--plugins", "none")
	if code != exitOK || !strings.HasPrefix(out, "This node has no model.") {
		t.Errorf("got %d, %q, %q, want the answer of a node of its own", code, out, errs)
	}
}

// TestLongChatHostile replies with control sequences. The terminal and the pipe show them escaped.
func TestLongChatHostile(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	node, _ := nodeFor(t, model)
	defer node.stop(t, syscall.SIGTERM)
	const attack = "osc \x1b]52;c;aGk=\a move \x1b[9A csi \u009b2J bidi \u202egpj\u2066 end"
	model.extra.Store(attack + "\n" + attack)
	ann := sit(t, nil, "--store", node.store)
	id := ann.session()
	ann.send("attack")
	shown := `osc \u001b]52;c;aGk=\u0007 move \u001b[9A csi \u009b2J bidi \u202egpj\u2066 end`
	ann.await(shown, shown)
	ann.quit(ctrlD, exitOK)
	bob := sit(t, nil, "--store", node.store, "--session", id)
	bob.await(shown, shown)
	bob.quit(ctrlC+ctrlC, exitOK)
	for _, s := range []*chatTerminal{ann, bob} {
		for _, raw := range []string{"\x1b]52", "\x1b[9A", "\u009b", "\u202e", "\u2066"} {
			if strings.Contains(s.output(), raw) {
				t.Errorf("got %q in %q", raw, s.output())
			}
		}
	}
	out, errs, code := pipeInto(t, "attack\n", "--store", node.store)
	if code != exitOK || out != shown+"\n"+shown+"\n" {
		t.Errorf("in a pipe: got %d, %q, %q, want %q twice", code, out, errs, shown)
	}
}

// TestLongChatPipe runs prompts, approvals and failures through a pipe.
func TestLongChatPipe(t *testing.T) {
	t.Parallel()
	node, _ := nodeFor(t, newScriptedModel(t))
	defer node.stop(t, syscall.SIGTERM)
	for _, tc := range []struct {
		in, out, says string
		code          int
	}{
		{"one\n\ntwo\n", "heard: one\nheard: two\n", "ann > two", exitOK},
		{"write a\n", "the tool said: [failed] the call was not approved: no user can be asked: the chat reads from a pipe\n", "? Let write_file run? a", exitOK},
		{"write a\n", "the tool said: [failed] the call was not approved: no user can be asked: the chat reads from a pipe\n", "--allow write_file lets the node run such calls", exitOK},
		{"busy\n", "heard: busy\n", "come back later", exitOK},
		{"fail\nnever said\n", "", "a turn ended without an answer: turn ", exitDifferent},
	} {
		out, errs, code := pipeInto(t, tc.in, "--store", node.store)
		if code != tc.code || out != tc.out || !strings.Contains(errs, tc.says) || strings.Contains(errs, "never said") {
			t.Errorf("%q: got %d, %q, %q, want %d, %q, %q", tc.in, code, out, errs, tc.code, tc.out, tc.says)
		}
	}
}

// TestLongChatPipeWaits answers the approval of a pipe's turn in a terminal.
func TestLongChatPipeWaits(t *testing.T) {
	t.Parallel()
	node, root := nodeFor(t, newScriptedModel(t))
	defer node.stop(t, syscall.SIGTERM)
	s := newPiped(t, "write b\n", "--store", node.store, "--approvals", "wait")
	id := s.session()
	s.until("? Let write_file run? b")
	ann := sit(t, nil, "--store", node.store, "--session", id)
	ann.session()
	ann.send("yes")
	ann.await("ann lets write_file run")
	s.until("ann lets write_file run")
	if err := s.cmd.Wait(); err != nil || !strings.HasPrefix(s.out.String(), "the tool said: ") {
		t.Errorf("got %v, %q", err, s.out.String())
	}
	if got, err := os.ReadFile(filepath.Join(root, "b")); string(got) != "hello" {
		t.Errorf("file: got %q, %v, want it written", got, err)
	}
	ann.quit(ctrlD, exitOK)
}

// TestLongChatPipeInterrupted sends a signal to a pipe: it cancels its turn.
func TestLongChatPipeInterrupted(t *testing.T) {
	t.Parallel()
	model := newScriptedModel(t)
	node, _ := nodeFor(t, model)
	defer node.stop(t, syscall.SIGTERM)
	s := newPiped(t, "hold on\n", "--store", node.store)
	s.until("ann > hold on")
	model.awaitBlocked(t)
	runtest.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.until("the turn was cancelled")
	s.until("goes on with the session")
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != exitFailed || s.out.Len() > 0 {
		t.Errorf("got exit code %d, %q, want %d and nothing", got, s.out.String(), exitFailed)
	}
}
