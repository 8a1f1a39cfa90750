package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts is a provider that says how many messages it was shown.
func counts() llm.Provider {
	return scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: scripted.Text(fmt.Sprint(len(req.Messages))), Stop: events.StopEnd}}, nil
	})
}

// TestRestart goes on in a directory where another process was.
func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{Provider: counts(), StoreDir: t.TempDir()}
	for _, want := range []string{"1", "3"} {
		lash, err := embedded.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := embedded.Start(t.Context(), cfg); !errors.Is(err, busembed.ErrHeld) {
			t.Errorf("a second one in the directory: got %v, want %v", err, busembed.ErrHeld)
		}
		_, err = lash.Create(t.Context(), session.CreateRequest{ID: "s"})
		if exists := want != "1"; errors.Is(err, session.ErrExists) != exists {
			t.Errorf("create: got %v, want that it exists: %v", err, exists)
		}
		turn, err := lash.Run(t.Context(), "s", session.Ask("How many?"))
		if err != nil || turn.Text != want {
			t.Errorf("run: got %q, %v, want %q", turn.Text, err, want)
		}
		lash.Stop()
		lash.Stop()
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if _, err := embedded.Start(t.Context(), embedded.Config{}); err == nil {
		t.Error("without a provider: got no error")
	}
	twice := plugin.Func("twice", func(*plugin.Registrar) error { return nil })
	if _, err := embedded.Start(t.Context(), embedded.Config{Provider: counts()}, twice, twice); !errors.Is(err, plugin.ErrRegistration) {
		t.Errorf("a plugin twice: got %v, want %v", err, plugin.ErrRegistration)
	}
}
