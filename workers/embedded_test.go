package workers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// counts is a provider whose reply is the number of messages in the request.
func counts() llm.Provider {
	return scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: scripted.Text(fmt.Sprint(len(req.Messages))), Stop: events.StopEnd}}, nil
	})
}

// TestRestart continues a session in a directory that another process has used.
func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{Provider: counts(), StoreDir: t.TempDir()}
	for _, want := range []string{"1", "3"} {
		lash, err := embedded.Start(t.Context(), cfg)
		runtest.NoError(t, err)
		if _, err := embedded.Start(t.Context(), cfg); !errors.Is(err, busembed.ErrInUse) || !strings.HasSuffix(err.Error(), "stop that process, or set Config.StoreDir to another directory") {
			t.Errorf("a second one in the directory: got %v, want %v and what to do", err, busembed.ErrInUse)
		}
		_, err = lash.Create(t.Context(), api.CreateRequest{ID: "s"})
		if exists := want != "1"; errors.Is(err, api.ErrExists) != exists {
			t.Errorf("create: got %v, want that it exists: %v", err, exists)
		}
		turn, err := lash.Run(t.Context(), "s", api.Ask("How many?"))
		if err != nil || turn.Text != want {
			t.Errorf("run: got %q, %v, want %q", turn.Text, err, want)
		}
		lash.Stop()
		lash.Stop()
	}
}

// TestLongRestartGoesOn stops a process and its server while one turn runs and one is queued. The next process finishes
// both.
func TestLongRestartGoesOn(t *testing.T) {
	t.Parallel()
	requested := make(chan struct{}, 1)
	hangs := scripted.New(func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
		requested <- struct{}{}
		<-ctx.Done()
		return scripted.Answer{}, context.Cause(ctx)
	})
	dir := t.TempDir()
	first, err := embedded.Start(t.Context(), embedded.Config{Provider: hangs, StoreDir: dir})
	runtest.NoError(t, err)
	_, err = first.Create(t.Context(), api.CreateRequest{ID: "s"})
	for _, id := range []events.TurnID{"t1", "t2"} {
		req := api.Ask("go")
		req.ID = id
		if err == nil {
			_, err = first.Submit(t.Context(), "s", req)
		}
	}
	runtest.NoError(t, err)
	<-requested
	first.Stop()
	second, err := embedded.Start(t.Context(), embedded.Config{Provider: counts(), StoreDir: dir})
	runtest.NoError(t, err)
	defer second.Stop()
	for _, id := range []events.TurnID{"t1", "t2"} {
		if r, err := second.Await(t.Context(), "s", id); err != nil || r.End != events.EndFinished {
			t.Errorf("turn %s: got %+v, %v, want it finished", id, r.End, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if _, err := embedded.Start(t.Context(), embedded.Config{}); err == nil || !strings.HasSuffix(err.Error(), "and scripted.New one that needs no key") {
		t.Errorf("without a provider: got %v, want what makes one", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	runtest.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := embedded.Start(t.Context(), embedded.Config{Provider: counts(), StoreDir: file}); err == nil || !strings.HasSuffix(err.Error(), "set Config.StoreDir to a directory that this process may make and write") {
		t.Errorf("a file as the store: got %v, want that it has to be a directory", err)
	}
	twice := plugin.Func("twice", func(*plugin.Registrar) error { return nil })
	_, err := embedded.Start(t.Context(), embedded.Config{Provider: counts()}, twice, twice)
	runtest.WantError(t, "a plugin twice", err, plugin.ErrRegistration)
}

// listing is a provider with a list of models, or its error.
type listing struct {
	llm.Provider
	names []string
	err   error
}

func (l listing) Models(context.Context) ([]string, error) { return l.names, l.err }

// TestStartChecksModel has providers with a list: a missing model is refused with the list, and nothing is started. A named one
// is accepted, also where the list fails or lacks it.
func TestStartChecksModel(t *testing.T) {
	t.Parallel()
	list := []string{"large", "b-small"}
	for name, tc := range map[string]struct {
		names []string
		err   error
		model string
		says  string
	}{
		"known":          {list, nil, "large", ""},
		"missing":        {list, nil, "", "start embedded: Config.Model: no model is named: scripted has b-small, large"},
		"unknown":        {list, nil, "larg", ""}, // a warning in the log
		"down":           {nil, errors.New("connection refused"), "large", ""},
		"down_missing":   {nil, errors.New("connection refused"), "", "no model is named, and scripted gives no list to choose from: connection refused"},
		"key_is_refused": {nil, &llm.Error{Kind: llm.KindAuth, Message: "no such key"}, "large", "no such key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "st")
			lash, err := embedded.Start(t.Context(), embedded.Config{Provider: listing{counts(), tc.names, tc.err}, Model: tc.model, StoreDir: dir, Logger: zaptest.NewLogger(t)})
			if tc.says == "" {
				runtest.NoError(t, err)
				lash.Stop()
				return
			}
			refused, ok := errors.AsType[*llm.ModelError](err)
			if !ok || refused.Model != tc.model || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want a model error with %q", err, tc.says)
			}
			_, err = os.Stat(dir)
			runtest.WantError(t, "the store", err, os.ErrNotExist)
		})
	}
}
