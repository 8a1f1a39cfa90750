package external

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/registry"
)

// sessionStartWait limits a [wire.SessionStart], idleWait a [wire.Idle].
const (
	sessionStartWait = 10 * time.Second
	idleWait         = 5 * time.Second
)

// placement is the instance that serves a session, for plugins of scope session. A placement is used only after the
// history has it.
//
//	none ──a turn starts──► instance, epoch 1 ──the instance is gone, refuses the start, or ended it──► epoch + 1
type placement struct {
	Session  events.SessionID `json:"session,omitempty"` // a fork does not inherit the placement
	Instance string           `json:"instance,omitempty"`
	Epoch    int64            `json:"epoch,omitempty"`
}

// sessionPlugin is the plugin of one session: what it gets of a manifest.
type sessionPlugin struct {
	plugin.State[pin]
	p       *Plugins
	name    string
	session events.SessionID
	parent  events.SessionID
	labels  map[string]string
	offer   *registry.Offer

	tools    *plugin.Tools // of the offer, for this session
	manifest *wire.Manifest

	starting sync.Mutex // of requests to start the session on an instance, and of records of placements

	mu      sync.Mutex
	started int64     // epoch that the instance accepted; 0: it has to be asked
	ended   int64     // epoch that the instance ended
	refused []string  // instances that refused the session since the last turn's start
	calls   int       // that run
	used    time.Time // by the last call or start
	timer   *time.Timer
}

// newSessionPlugin is the plugin of one session, with the tools of an offer.
func (p *Plugins) newSessionPlugin(name string, in *plugin.BuildContext, from *registry.Offer) *sessionPlugin {
	o := &sessionPlugin{p: p, name: name, session: in.Session, parent: in.Parent, labels: in.Labels, offer: from, tools: from.Tools, manifest: from.Manifest}
	if o.placed() {
		o.tools = from.Tools.With(o.bind)
	}
	return o
}

// placed reports whether one instance serves the session.
func (o *sessionPlugin) placed() bool { return o.manifest.Scope == wire.ScopeSession }

// bind sends the calls of a tool to the instance that serves the session.
func (o *sessionPlugin) bind(t *plugin.BoundTool) {
	if t.Holder != nil {
		t.Holder = func(events.SessionID, events.EffectID) (id, term string) {
			if !o.p.registry.Serves(o.name, o.offer.Hash, o.offer.Tools, t.Name) {
				return "", ""
			}
			return o.p.withTerm(o.name, o.place().Instance)
		}
	}
	t.Recorded = func(call plugin.Call) {
		if call.Holder == "" {
			call.Holder = o.Load().Instance
		}
		o.p.tellRecorded(o.name, call)
	}
	t.Abandoned = func(call plugin.Call) {
		if call.Holder == "" {
			call.Holder = o.Load().Instance
		}
		o.p.cancelAbandoned(o.name, call)
	}
	run := o.p.handler(o.name, t.Name, t.Effects.Repeatable(), o)
	t.Handler = o.p.served(o.name, o.offer.Hash, o.offer.Tools, t.Name, func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		o.begin()
		defer o.end()
		return run(ctx, call, args)
	})
}

// place is the session's placement. A placement that cannot be used is replaced; the zero placement: no instance lives.
func (o *sessionPlugin) place() placement {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.Load().placement
	if at.Session != o.session {
		at = placement{Session: o.session}
	}
	if o.usableLocked(at) {
		return at
	}
	at.Instance = o.p.registry.Pick(o.name, wire.CallID{Session: o.session}, o.refused...)
	if at.Instance == "" {
		return placement{}
	}
	at.Epoch++
	o.Update(func(p *pin) { p.placement = at })
	return at
}

// usable reports whether the placement in the history still holds.
func (o *sessionPlugin) usable() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.Load().placement
	return at.Session == o.session && o.usableLocked(at)
}

func (o *sessionPlugin) usableLocked(at placement) bool {
	return at.Epoch > o.ended && o.p.registry.TakesCalls(o.name, at.Instance) && !slices.Contains(o.refused, at.Instance)
}

// restart has the next call ask the instance again whether it has the session: another node may have worked on the
// session since.
func (o *sessionPlugin) restart() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started, o.refused = 0, nil
}

// ready is the placement after the instance accepted it, whose epoch the call gets. Errors: those of readyFor.
func (o *sessionPlugin) ready(ctx context.Context, out *instanceCall) (placement, error) {
	at, err := o.readyFor(ctx, out.call.Run.Save)
	out.in.Epoch = at.Epoch
	return at, err
}

// readyFor is the placement after the instance accepted it. save records a new placement; nil where nothing can be
// recorded. Errors: a [*plugin.Failure] if no instance serves the session, the cause of ctx's end, and those of save.
func (o *sessionPlugin) readyFor(ctx context.Context, save func(context.Context) error) (placement, error) {
	o.starting.Lock() // no other call uses a placement before the history has it
	defer o.starting.Unlock()
	for tries, refusals := 0, 0; tries < maxTried && refusals < maxHops; tries++ {
		if save == nil && !o.usable() {
			break
		}
		before := o.Revision()
		at := o.place()
		if at.Instance == "" {
			break
		}
		if o.Revision() != before {
			if err := save(ctx); err != nil {
				return placement{}, err
			}
		}
		err := o.startLocked(ctx, at)
		switch {
		case err == nil:
			return at, nil
		case ctx.Err() != nil:
			return placement{}, context.Cause(ctx)
		case errors.Is(err, bus.ErrNoResponder): // it was gone before
			o.p.registry.Gone(o.name, at.Instance)
		default:
			refusals++
		}
	}
	return placement{}, unavailable(o.name)
}

// start has the instance accept a placement. After an error the next place makes another one.
func (o *sessionPlugin) start(ctx context.Context, at placement) error {
	o.starting.Lock()
	defer o.starting.Unlock()
	return o.startLocked(ctx, at)
}

func (o *sessionPlugin) startLocked(ctx context.Context, at placement) error {
	o.mu.Lock()
	accepted := o.started == at.Epoch && (o.p.idle < 0 || time.Since(o.used) < o.p.idle/2)
	o.mu.Unlock()
	if accepted {
		return nil
	}
	var answer wire.Placed
	alive, end := o.p.whileAlive(ctx, o.name, at.Instance)
	defer end()
	term, _ := o.p.registry.Term(o.name, at.Instance)
	err := o.request(alive, at.Instance, wire.VerbSessionStart, sessionStartWait, &wire.SessionStart{
		Session: o.session, Parent: o.parent, Epoch: at.Epoch, Term: term, Labels: o.labels, IdleMS: max(o.p.idle, 0).Milliseconds(),
	}, &answer)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && answer.Error == nil:
		o.started, o.used = at.Epoch, time.Now()
		return nil
	case err == nil && answer.Error.Code == wire.CodeNotOwner: // it ended this placement
		o.ended = max(o.ended, at.Epoch)
		return answer.Error
	case err == nil:
		err = answer.Error
	}
	if ctx.Err() == nil {
		o.p.log.Warn("an instance does not take a session", zap.String("plugin", o.name), zap.String("instance", at.Instance), zap.String("session", string(o.session)), zap.Error(err))
		o.refused = append(o.refused, at.Instance)
	}
	return err
}

// request sends a request to an instance, and decodes its answer.
func (o *sessionPlugin) request(ctx context.Context, id, verb string, limit time.Duration, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := o.p.bus.RequestInstance(ctx, o.name, id, verb, data)
	if err != nil {
		return err
	}
	return wire.Decode(got, answer)
}

// run sends a call to the session's instance. One that may repeat goes to the next instance if that is gone.
func (o *sessionPlugin) run(ctx context.Context, out *instanceCall) (plugin.Result, error) {
	if out.single {
		return o.runOnce(ctx, out)
	}
	return out.repeat(ctx, func(tried []string) (string, error) {
		if len(tried) > 0 {
			o.endEpoch(out.in.Epoch)
		}
		at, err := o.ready(ctx, out)
		return at.Instance, err
	})
}

// runOnce sends a call to one instance. An instance that ended the session just before has not run the call: it gets the
// call again, with the next epoch.
func (o *sessionPlugin) runOnce(ctx context.Context, out *instanceCall) (plugin.Result, error) {
	for hops := 1; ; hops++ {
		holder, err := o.accepted(ctx, out)
		if err != nil {
			return plugin.Result{}, err
		}
		r, err := out.once(ctx, holder)
		refused, ok := errors.AsType[*refusal](err)
		if !ok || refused.code != wire.CodeNotOwner || out.in.Again || hops >= maxHops {
			return r, err
		}
		o.endEpoch(out.in.Epoch)
	}
}

// endEpoch has the next place make another placement.
func (o *sessionPlugin) endEpoch(epoch int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = max(o.ended, epoch)
}

// accepted has the instance of a call accept the session: the one that the history names, or for an inner call the one
// of the placement. An instance knows the calls that it has, whatever their epoch, so a call that may have reached it
// goes on without.
func (o *sessionPlugin) accepted(ctx context.Context, out *instanceCall) (holder string, err error) {
	holder = out.call.Holder
	switch {
	case out.in.Again:
		if at := o.Load().placement; at.Instance == holder && o.usable() {
			out.in.Epoch = at.Epoch
			_ = o.start(ctx, at) // the call goes on
		}
		return holder, nil
	case holder == "" && !out.call.Inner:
		return "", nil
	}
	at, err := o.ready(ctx, out)
	if err == nil && !out.call.Inner && at.Instance != holder {
		err = unavailable(o.name)
	}
	return at.Instance, err
}

// begin and end surround each call.
func (o *sessionPlugin) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *sessionPlugin) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used = time.Now()
	if o.calls--; o.calls == 0 && o.p.idle > 0 {
		o.timer = time.AfterFunc(o.p.idle, o.hintIdle)
	}
}

// hintIdle tells the instance that the session had no call for some time. Whether people watch the session is not
// known: no subject has watchers as its only subscribers.
func (o *sessionPlugin) hintIdle() {
	o.mu.Lock()
	at, quiet := o.Load().placement, o.calls == 0 && o.p.ctx.Err() == nil
	quiet = quiet && at.Session == o.session && at.Epoch > o.ended
	in := wire.Idle{Session: o.session, Epoch: at.Epoch, QuietMS: time.Since(o.used).Milliseconds()}
	o.mu.Unlock()
	if !quiet {
		return
	}
	var answer wire.IdleAnswer
	if err := o.request(o.p.ctx, at.Instance, wire.VerbIdle, idleWait, &in, &answer); err != nil {
		o.p.log.Debug("idle session", zap.String("plugin", o.name), zap.String("session", string(o.session)), zap.Error(err))
		return // a hint
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if answer.Ended {
		o.ended = max(o.ended, at.Epoch)
	}
}
