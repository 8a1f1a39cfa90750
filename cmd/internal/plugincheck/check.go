// Package plugincheck checks programs that are plugins. It starts a server, a node and the program, and sends the
// program the messages of session/plugin/wire/PROTOCOL.md. The checks of [Conformance] need the plugin of this name.
package plugincheck

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Conformance is the name of the plugin with which the SDKs of all languages are checked. It has the tools echo, sleep,
// fail, throw, big, picture, print, count, ask, give_up and finish, and hooks at before_tool_call, after_tool_call and
// before_turn.
const Conformance = "conformance"

// Config of a run. Plugin, Command, Wait, Late and Log are required.
type Config struct {
	Plugin  string   // the name that the program gets
	Command []string // the program and its arguments
	Env     []string // of the program, besides the LASH_PLUGIN variables
	Wait    time.Duration
	Late    time.Duration // how much later than the protocol says a message may come
	Log     io.Writer     // gets what the program prints
}

// Result is the result of one check.
type Result struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // of a failure
	Millis int64  `json:"millis"`
}

// check is one row of the table.
type check struct {
	name string
	run  func(ctx context.Context, s *setting) error
}

// checks are all checks for a plugin, in order. The first one is a condition of the others, and the last one ends the
// program.
func checks(plugin string) []check {
	all := slices.Clone(genericChecks)
	if plugin == Conformance {
		return append(append(all, conformanceChecks...), busyDrain)
	}
	return append(all, drain)
}

// Run runs the checks one after the other, and reports the result of each. Without a registration the others do not run.
// Errors: the server or the node does not start, or ctx ends.
func Run(ctx context.Context, cfg Config, report func(Result)) error {
	s, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.close()
	for i, c := range checks(cfg.Plugin) {
		began := time.Now()
		once, cancel := context.WithTimeoutCause(ctx, cfg.Wait, fmt.Errorf("it took longer than %s", cfg.Wait))
		err := c.run(once, s)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := Result{Check: c.name, OK: err == nil, Millis: time.Since(began).Milliseconds()}
		if err != nil {
			r.Reason = err.Error()
		}
		report(r)
		if i == 0 && err != nil {
			return nil
		}
	}
	return nil
}
