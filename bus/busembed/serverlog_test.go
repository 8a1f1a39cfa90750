package busembed_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// TestErrorsOfServerAreLogged refuses connections without the key: the log says so with the address, and a flood of them fills
// no log.
func TestErrorsOfServerAreLogged(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.DebugLevel)
	s, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true, Keyed: true, Logger: zap.New(core)})
	runtest.NoError(t, err)
	t.Cleanup(s.Stop)
	if n := lines.Len(); n > 0 {
		t.Errorf("the start: got %v, want no line", lines.All())
	}
	const tries = 60
	for range tries {
		if accepts(t, s, nats.Name(strings.Repeat("n", 3000))) {
			t.Fatal("the server accepts a connection without the key")
		}
	}
	all := lines.All()
	if len(all) == 0 || len(all) >= tries {
		t.Fatalf("got %d lines of %d refusals, want some, and fewer than refusals", len(all), tries)
	}
	for _, line := range all {
		text, _ := line.ContextMap()["err"].(string)
		if line.LoggerName != "nats" || line.Level != zap.ErrorLevel || !strings.Contains(text, "127.0.0.1") || len(text) > 1000 {
			t.Errorf("got %s %s %q, want an error with the address, of at most 1000 bytes", line.Level, line.LoggerName, text)
		}
	}
}
