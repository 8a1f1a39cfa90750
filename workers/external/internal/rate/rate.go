// Package rate limits in time what the programs of a plugin send to a node. Package wire has the figures.
package rate

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/lash-go/lash/session/plugin/wire"
)

// Limit is a limit in time of what instances send to this node.
type Limit struct {
	*rate.Limiter
	of string // for people
}

// NewLimit is a limit of units in a second. of names them in the singular of a second, for people.
func NewLimit(perSecond int, of string) Limit {
	return Limit{rate.NewLimiter(rate.Limit(perSecond), wire.RateBurst*perSecond), fmt.Sprintf("%d %s", perSecond, of)}
}

// Take refuses n units above the limit.
func (l Limit) Take(n int) error {
	if l.AllowN(time.Now(), n) {
		return nil
	}
	return &wire.Error{Code: wire.CodeRateLimited, Message: fmt.Sprintf("the limit of this node is %s a second: try again later", l.of)}
}

// Traffic are the limits of one call, or of all calls of one plugin. What a call sends counts for both, and for the
// plugin only what the call's limits admit: one call does not use up the limits of the others.
type Traffic struct{ callbacks, outputs, bytes Limit }

// Call are the limits of all that one call sends. What is above them is dropped before it is parsed.
type Call struct {
	Traffic
	messages, size Limit
}

// NewCall are the limits of a new call.
func NewCall() *Call {
	return &Call{messages: NewLimit(wire.AnswersPerSecond, "answers of one call"), size: NewLimit(wire.AnswerBytesPerSecond, "bytes of answers of one call"), Traffic: Traffic{
		callbacks: NewLimit(wire.CallbacksPerSecond, "callbacks of one call"),
		outputs:   NewLimit(wire.MaxOutputsPerSecond, "outputs of one call"),
		bytes:     NewLimit(wire.OutputBytesPerSecond, "bytes of output of one call"),
	}}
}

// Answer refuses an answer of this many bytes above the limits.
func (a *Call) Answer(size int) error {
	if err := a.messages.Take(1); err != nil {
		return err
	}
	return a.size.Take(size)
}

// Plugin are the limits of all calls and requests of one plugin.
type Plugin struct {
	Traffic
	registrations, fires Limit
}

// NewPlugin are the limits of a plugin.
func NewPlugin() *Plugin {
	return &Plugin{
		registrations: NewLimit(wire.RegistrationsPerSecond, "registrations of one plugin"),
		fires:         NewLimit(wire.FiresPerSecond, "fired hooks of one plugin"),
		Traffic: Traffic{
			callbacks: NewLimit(wire.PluginCallbacks, "callbacks of one plugin"),
			outputs:   NewLimit(wire.PluginOutputs, "outputs of one plugin"),
			bytes:     NewLimit(wire.PluginOutputBytes, "bytes of output of one plugin"),
		},
	}
}

// Request refuses a request of an operation above its limit.
func (p *Plugin) Request(op string) error {
	if op == wire.VerbFire {
		return p.fires.Take(1)
	}
	return p.registrations.Take(1)
}

// Callback refuses a callback above the limits.
func (t *Traffic) Callback(all *Traffic) error {
	if err := t.callbacks.Take(1); err != nil {
		return err
	}
	return all.callbacks.Take(1)
}

// Output refuses output of this many bytes above the limits.
func (t *Traffic) Output(all *Traffic, size int) error {
	for _, step := range []struct {
		Limit
		n int
	}{{t.outputs, 1}, {t.bytes, size}, {all.outputs, 1}, {all.bytes, size}} {
		if err := step.Take(step.n); err != nil {
			return err
		}
	}
	return nil
}
