package plugincheck_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/internal/plugincheck"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
)

// TestMain is also the program that is checked, where its environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("LASH_PLUGIN") == "" {
		os.Exit(runtest.Select(m).Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is a plugin with one tool. SLOPPY=1: it does not end when it is told to.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if os.Getenv("SLOPPY") != "" {
		ctx = context.WithoutCancel(ctx)
	}
	_, cfg, err := remote.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	defer cfg.Conn.Close()
	cfg.Version = "1.0.0"
	cfg.Plugin = plugin.OfTool(plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) { return in.A + in.B, nil })
	instance, err := remote.Start(ctx, cfg)
	if err != nil {
		return err
	}
	return instance.Run(ctx)
}

// patience is how long a check of a good plugin may take on a machine with other load, and how late a message may come.
const patience = 2 * time.Minute

// run checks a program, and returns the reason of each check that failed.
func run(t *testing.T, wait time.Duration, name string, env []string, command ...string) (order []string, failed map[string]string, printed string) {
	t.Helper()
	var log bytes.Buffer
	failed = make(map[string]string)
	err := plugincheck.Run(t.Context(), plugincheck.Config{
		Plugin: name, Command: command, Env: append(os.Environ(), env...), Wait: wait, Late: patience, Log: &log,
	}, func(r plugincheck.Result) {
		order = append(order, r.Check)
		if !r.OK {
			failed[r.Check] = r.Reason
		}
		if r.OK != (r.Reason == "") || r.Millis < 0 {
			t.Errorf("got the result %+v, want a reason for a failure only", r)
		}
	})
	runtest.NoError(t, err)
	return order, failed, log.String()
}

// TestLongGoodPlugin passes all checks. The first is its registration, and the last its end.
func TestLongGoodPlugin(t *testing.T) {
	t.Parallel()
	order, failed, printed := run(t, patience, "add", nil, os.Args[0])
	if len(order) < 8 || order[0] != "registers" || order[len(order)-1] != "drain" || len(failed) > 0 {
		t.Errorf("got the checks %v, failed %v, printed %s, want all passed", order, failed, printed)
	}
}

// TestLongSloppyPlugin fails the checks of its end, and of these alone.
func TestLongSloppyPlugin(t *testing.T) {
	t.Parallel()
	_, failed, _ := run(t, patience/8, "add", []string{"SLOPPY=1"}, os.Args[0])
	if failed["second_instance_and_SIGTERM"] == "" || failed["registers"] != "" || failed["unknown_tool"] != "" {
		t.Errorf("got %v, want the checks of SIGTERM failed", failed)
	}
}

// TestNoPlugin: a program that does not register fails the first check, and no other runs.
func TestNoPlugin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ command, want, printed string }{
		"ends_at_once":    {"echo hello; exit 3", "the program ended (exit status 3)", "hello\n"},
		"ends_well":       {"true", "the program ended (exit status 0)", ""},
		"has_no_other_id": {"echo $LASH_PLUGIN $LASH_PLUGIN_PREFIX $LASH_PLUGIN_NKEY; exit 1", "the program ended", "add lash\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order, failed, printed := run(t, patience, "add", []string{"LASH_PLUGIN_NKEY=/secret"}, "sh", "-c", c.command)
			if len(order) != 1 || !strings.Contains(failed["registers"], c.want) || !strings.Contains(failed["registers"], "no request arrived at lash.plugins.add.register") {
				t.Errorf("got the checks %v, failed %v, want the registration failed with %q", order, failed, c.want)
			}
			if printed != c.printed {
				t.Errorf("got %q printed, want %q", printed, c.printed)
			}
		})
	}
}

// TestMissingProgram: a program that cannot start is a failure of the first check too.
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	order, failed, _ := run(t, patience, "add", nil, "/no/such/program")
	if len(order) != 1 || !strings.Contains(failed["registers"], "no such file") {
		t.Errorf("got the checks %v, failed %v, want the start failed", order, failed)
	}
}
