package remote

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/session/plugin/wire"
)

// Run serves until ctx ends, a message at drain arrives, or the plugin answers [IdleExit]. It then drains the instance
// for [Config.Grace] at most, and stops it. Errors: the deadline of the grace, and a [*wire.Error] if nodes have lost the
// manifest and refuse it now.
func (i *Instance) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-i.asked:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.cfg.Grace)
	defer cancel()
	err := i.Drain(grace)
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer done()
	err = errors.Join(err, i.Stop(stop))
	if refused := i.refused.Load(); refused != nil {
		err = errors.Join(*refused, err)
	}
	return err
}

// stopWait limits the wait for calls that Stop has cancelled.
const stopWait = 10 * time.Second

// Drain asks nodes for no new calls, and returns when those and the hooks that run have ended, or ctx ends. Calls that nodes gave to
// this instance before they know it still run. It also waits up to [wire.Lease] for nodes to record the outcomes: a node
// that dies just then asks for them again. Errors: the cause of ctx's end.
func (i *Instance) Drain(ctx context.Context) error {
	i.leaving.Store(true)
	i.sign()
	select {
	case <-time.After(wire.LeaveWait):
	case <-ctx.Done():
	}
	i.calls.drain()
	if p, ok := i.cfg.Plugin.(Program); ok {
		p.Drain()
	}
	if err := i.calls.rest(ctx); err != nil {
		return err
	}
	every := time.NewTicker(recordedEvery)
	defer every.Stop()
	for late := time.After(wire.Lease); i.calls.kept() > 0; {
		select {
		case <-every.C:
		case <-late:
			return nil
		case <-ctx.Done():
			return nil //nolint:nilerr // the calls have ended
		}
	}
	return nil
}

// recordedEvery is the time between two looks at the outcomes that are kept.
const recordedEvery = 20 * time.Millisecond

// drainRequested handles an operator's drain.
func (i *Instance) drainRequested(*nats.Msg) {
	i.leaving.Store(true)
	i.sign()
	i.end()
	i.begin(func() { _ = i.Drain(i.ctx) }) // for programs without Run
}

// end closes asked once.
func (i *Instance) end() { i.endOnce.Do(func() { close(i.asked) }) }
