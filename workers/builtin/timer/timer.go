// Package timer lets the model wait: the tools wait and wait_until park the turn until a time. A parked turn occupies
// no node.
//
// Guarantees: a wait outlives every node and ends once in the history. A tool that runs again after a crash waits for
// the first time that was set. The package imports session/plugin and events.
package timer

import (
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "timer"

// Config configures the plugin.
type Config struct {
	Max time.Duration // limit of one wait. Defaults to 31 days
}

// Factory builds the plugin.
func Factory(cfg Config) plugin.Factory {
	if cfg.Max <= 0 {
		cfg.Max = 31 * 24 * time.Hour
	}
	return plugin.New(ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &timer{cfg}, nil })
}

type timer struct{ cfg Config }

func (t *timer) Register(r *plugin.Registrar) error {
	limit := fmt.Sprintf(" At most %s.", t.cfg.Max)
	plugin.AddTool(r, plugin.Tool{
		Name: "wait", Effects: events.EffectsIdempotent,
		Description: "Waits for some time, then goes on. Nothing else happens meanwhile." + limit,
	}, t.wait)
	plugin.AddTool(r, plugin.Tool{
		Name: "wait_until", Effects: events.EffectsIdempotent,
		Description: "Waits until a time, then goes on. Nothing else happens meanwhile. A time that has passed is over at once." + limit,
	}, t.waitUntil)
	return nil
}

// waitArgs is the arguments of the tool wait.
type waitArgs struct {
	Seconds float64 `json:"seconds" jsonschema:"how long, 0 or more"`
}

func (t *timer) wait(ctx context.Context, call plugin.Call, in waitArgs) (plugin.Result, error) {
	if !(in.Seconds >= 0) || in.Seconds > t.cfg.Max.Seconds() { // also for NaN
		return plugin.Result{}, plugin.InvalidArgs("seconds is %v, want 0 to %v", in.Seconds, t.cfg.Max.Seconds())
	}
	return t.park(ctx, call, now(call).Add(time.Duration(in.Seconds*float64(time.Second))))
}

// waitUntilArgs is the arguments of the tool wait_until.
type waitUntilArgs struct {
	Time string `json:"time" jsonschema:"RFC 3339, as in 2006-01-02T15:04:05Z"`
}

func (t *timer) waitUntil(ctx context.Context, call plugin.Call, in waitUntilArgs) (plugin.Result, error) {
	at, err := time.Parse(time.RFC3339, in.Time)
	if err != nil {
		return plugin.Result{}, plugin.InvalidArgs("time is %q, want it as 2006-01-02T15:04:05Z", in.Time)
	}
	if ahead := at.Sub(now(call)); ahead > t.cfg.Max {
		return plugin.Result{}, plugin.InvalidArgs("time is %s ahead, limit is %s", ahead.Round(time.Second), t.cfg.Max)
	}
	return t.park(ctx, call, at)
}

// now is when the call began, as the history has it; without a session the time of this machine.
func now(call plugin.Call) time.Time {
	if call.Host == nil {
		return time.Now()
	}
	return call.Host.Now()
}

// park ends the call later, on any node.
func (t *timer) park(ctx context.Context, call plugin.Call, at time.Time) (plugin.Result, error) {
	text := "It is " + at.UTC().Format(time.RFC3339) + "."
	if !at.After(now(call)) {
		return plugin.Result{Text: text}, nil
	}
	if call.Host == nil {
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "there are no timers here"}
	}
	err := call.Host.ResolveAt(ctx, call.Session, call.CompletionKey(), at, events.ToolResult{Text: text})
	return plugin.Result{Pending: err == nil}, err
}
