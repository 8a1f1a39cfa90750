package embedded

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestEnded has the connection closed for good under a running process: the program is told, and can stop it.
func TestEnded(t *testing.T) {
	t.Parallel()
	l, err := Start(t.Context(), Config{Provider: scripted.New(nil)})
	runtest.NoError(t, err)
	defer l.Stop()
	ended := l.Ended()
	select {
	case err := <-ended:
		t.Fatalf("before the end: got %v, want nothing", err)
	default:
	}
	l.bus.Conn().Close()
	if err := bustest.Receive(t, "the end", ended); err == nil {
		t.Error("got no reason")
	}
}
