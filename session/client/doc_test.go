package client_test

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/operation"
)

// TestPromotedMethodsAreFound runs the command that the documentation of the client names. It lists the methods that the
// client gets from the embedded type.
func TestPromotedMethodsAreFound(t *testing.T) {
	t.Parallel()
	about := goDoc(t, ".", "Client")
	_, command, ok := strings.Cut(about, "\n        go doc ")
	line, _, _ := strings.Cut(command, "\n")
	if !ok {
		t.Fatalf("documentation: got %q, want a go doc command", about)
	}
	list := goDoc(t, strings.Fields(line)...)
	for m := range reflect.TypeFor[operation.Requests]().Methods() {
		if m.Name != "Send" && !strings.Contains(list, "func (r Requests) "+m.Name+"(") { // Send is of an interface
			t.Errorf("%s is not listed", m.Name)
		}
	}
}

func goDoc(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"doc"}, args...)...).CombinedOutput() //nolint:gosec // arguments of the documentation
	if err != nil {
		t.Fatalf("go doc %q: %v, %s", args, err, out)
	}
	return string(out)
}
