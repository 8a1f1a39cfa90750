package external

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/lash-go/lash/session/plugin/wire"
)

// limit is a limit in time of what instances send to this node.
type limit struct {
	*rate.Limiter
	of string // for people
}

func newLimit(perSecond int, of string) limit {
	return limit{rate.NewLimiter(rate.Limit(perSecond), wire.RateBurst*perSecond), fmt.Sprintf("%d %s", perSecond, of)}
}

// take refuses n units above the limit.
func (l limit) take(n int) error {
	if l.AllowN(time.Now(), n) {
		return nil
	}
	return &wire.Error{Code: wire.CodeRateLimited, Message: fmt.Sprintf("the limit of this node is %s a second: try again later", l.of)}
}

// traffic are the limits of one call, or of all calls of one plugin. What a call sends counts for both, and for the
// plugin only what the call's limits admit: one call does not use up the limits of the others.
type traffic struct{ callbacks, outputs, bytes limit }

// answers are the limits of all that one call sends. What is above them is dropped before it is parsed.
type answers struct {
	traffic
	messages, size limit
}

func callTraffic() *answers {
	return &answers{messages: newLimit(wire.AnswersPerSecond, "answers of one call"), size: newLimit(wire.AnswerBytesPerSecond, "bytes of answers of one call"), traffic: traffic{
		callbacks: newLimit(wire.CallbacksPerSecond, "callbacks of one call"),
		outputs:   newLimit(wire.MaxOutputsPerSecond, "outputs of one call"),
		bytes:     newLimit(wire.OutputBytesPerSecond, "bytes of output of one call"),
	}}
}

// answer refuses an answer of this many bytes above the limits.
func (a *answers) answer(size int) error {
	if err := a.messages.take(1); err != nil {
		return err
	}
	return a.size.take(size)
}

// requests are the limits of one plugin.
type requests struct {
	traffic
	registrations, fires limit
}

func newRequests() *requests {
	return &requests{
		registrations: newLimit(wire.RegistrationsPerSecond, "registrations of one plugin"),
		fires:         newLimit(wire.FiresPerSecond, "fired hooks of one plugin"),
		traffic: traffic{
			callbacks: newLimit(wire.PluginCallbacks, "callbacks of one plugin"),
			outputs:   newLimit(wire.PluginOutputs, "outputs of one plugin"),
			bytes:     newLimit(wire.PluginOutputBytes, "bytes of output of one plugin"),
		},
	}
}

// request refuses a request of a plugin above its limit. Those of plugins that no node has are refused anyway.
func (p *Plugins) request(name, op string) error {
	k := p.byName[name]
	switch {
	case k == nil:
		return nil
	case op == wire.VerbFire:
		return k.limits.fires.take(1)
	}
	return k.limits.registrations.take(1)
}

// callback refuses a callback above the limits.
func (t *traffic) callback(all *traffic) error {
	if err := t.callbacks.take(1); err != nil {
		return err
	}
	return all.callbacks.take(1)
}

// output refuses output of this many bytes above the limits.
func (t *traffic) output(all *traffic, size int) error {
	for _, step := range []struct {
		limit
		n int
	}{{t.outputs, 1}, {t.bytes, size}, {all.outputs, 1}, {all.bytes, size}} {
		if err := step.take(step.n); err != nil {
			return err
		}
	}
	return nil
}
