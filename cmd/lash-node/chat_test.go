package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestChatShared has two terminals on one session: each shows what the other one says, and what it answers.
func TestChatShared(t *testing.T) {
	t.Parallel()
	node, root := nodeFor(t, newTalker(t))
	defer node.stop(t, syscall.SIGTERM)
	ann := sit(t, nil, "--store", node.store)
	id := ann.session()
	ann.says("hello")
	ann.sees("ann > hello", "heard: hello")
	bob := sit(t, []string{"USER=bob"}, "--store", node.store, "--session", id)
	bob.sees("ann > hello", "heard: hello", ", model ")
	bob.says("good day")
	for _, s := range []*seat{ann, bob} {
		s.sees("bob > good day", "heard: good day")
	}
	ann.says("write a.txt")
	for _, s := range []*seat{ann, bob} {
		s.sees("ann > write a.txt", "#1 write_file", "? Let write_file run? a.txt (asks gate)", `write_file {"content":"hello","path":"a.txt"}`, "waiting for an approval of write_file")
	}
	bob.says("y")
	for _, s := range []*seat{ann, bob} {
		s.sees("bob lets write_file run", "#1 write_file", "the tool said: ")
	}
	if got, err := os.ReadFile(filepath.Join(root, "a.txt")); string(got) != "hello" {
		t.Errorf("file: got %q, %v, want it written", got, err)
	}
	ann.says("write b.txt")
	bob.sees("? Let write_file run? b.txt")
	ann.sees("? Let write_file run? b.txt")
	ann.says("n not that one")
	for _, s := range []*seat{ann, bob} {
		s.sees("ann refused write_file: not that one", "the tool said: [failed]")
	}
	ann.leaves(ctrlD, exitOK)
	bob.says("/quit")
	bob.leaves("", exitOK)
}
