// Package external tests plugins that run as programs of their own, with real processes that are killed and frozen.
package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// In a process of [startProgram] these variables name the server, the prefix of subjects, the instance and the file that runs are logged in.
const (
	serverVariable   = "LASH_TEST_SERVER"
	prefixVariable   = "LASH_TEST_PREFIX"
	instanceVariable = "LASH_TEST_INSTANCE"
	runsVariable     = "LASH_TEST_RUNS"
	versionVariable  = "LASH_TEST_VERSION" // of the plugin. Defaults to "1"
	scopeVariable    = "LASH_TEST_SCOPE"
	benchVariable    = "LASH_TEST_BENCH" // not empty: the plugin of benchmarks
	idleVariable     = "LASH_TEST_IDLE"  // what the plugin does with idle sessions: "" keeps, "end" and "exit"
)

// released ends the name of the file that is there when calls with hold may end.
const released = ".released"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) == "" {
		harness.MainOfSmoke(m)
		return
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program is a plugin as a program of its own.
func program() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conn, err := nats.Connect(os.Getenv(serverVariable))
	if err != nil {
		return err
	}
	defer conn.Close()
	var plugin plugin.Factory = placedNotes{notes(os.Getenv(runsVariable))}
	if os.Getenv(benchVariable) != "" {
		if plugin, err = benchmarked(conn, os.Getenv(instanceVariable)); err != nil {
			return err
		}
	}
	cfg := remote.Config{
		Conn: conn, Plugin: plugin, Version: cmp.Or(os.Getenv(versionVariable), "1"), Instance: os.Getenv(instanceVariable),
		Prefix: os.Getenv(prefixVariable), Scope: wire.Scope(os.Getenv(scopeVariable)),
	}
	if os.Getenv(benchVariable) != "" {
		cfg.Hooks = map[events.HookPoint]remote.HookOptions{events.PointBeforeTool: {Tools: []string{hookedTool}}}
	}
	i, err := remote.Start(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return i.Run(ctx)
}

// placedNotes logs what happens to sessions that are placed on this process.
type placedNotes struct{ plugin.Factory }

func (placedNotes) StartSession(_ context.Context, in wire.SessionStart) error {
	return logLine(os.Getenv(runsVariable), "started", fmt.Sprint(in.Epoch))
}

func (placedNotes) IdleSession(context.Context, events.SessionID) remote.IdleAction {
	_ = logLine(os.Getenv(runsVariable), "idle", "-")
	return map[string]remote.IdleAction{"end": remote.IdleEnd, "exit": remote.IdleExit}[os.Getenv(idleVariable)]
}

// notes is a plugin whose tools append a line to a file when they run, and another one when they end. write must not
// run twice, look may.
func notes(runs string) plugin.Factory {
	type args struct {
		Millis int    `json:"millis,omitempty"`
		Hold   bool   `json:"hold,omitempty"`
		Text   string `json:"text"`
		Fail   string `json:"fail,omitempty"`
	}
	work := func(ctx context.Context, call plugin.Call, in args) (string, error) {
		if err := logRun(runs, "began", call); err != nil {
			return "", err
		}
		switch in.Fail {
		case "panic":
			panic("as requested")
		case "error":
			return "", &plugin.Failure{Class: plugin.ClassExternal, Code: "closed", Message: "the shop is closed"}
		}
		if !pause(ctx, runs, in.Millis, in.Hold) {
			return "", logRun(runs, "stopped", call)
		}
		return "noted: " + in.Text, logRun(runs, "ended", call)
	}
	return plugin.Func("notes", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "write", Description: "Writes a note."}, work)
		plugin.AddTool(r, plugin.Tool{Name: "look", Description: "Looks a note up.", Effects: events.EffectsIdempotent}, work)
		return addCallTools(r, runs)
	})
}

// pause is the body of a tool: it ends after a time or, of a call that is held, when the test has released it. It reports
// false if ctx ends before.
func pause(ctx context.Context, runs string, millis int, hold bool) bool {
	wait := time.Duration(millis) * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait): //nolint:forbidigo // the time of the tool's work
		}
		if _, err := os.Stat(runs + released); !hold || err == nil {
			return true
		}
		wait = 10 * time.Millisecond
	}
}

func logRun(path, what string, call plugin.Call) error {
	return logLine(path, what, string(call.Effect), string(call.Session))
}

func logLine(path, what, of string, more ...string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(append([]string{what, of, os.Getenv(instanceVariable)}, more...), " "))
	return errors.Join(err, f.Close())
}
