package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/internal/callback"
	"github.com/lash-go/lash/session/internal/quota"
	"github.com/lash-go/lash/session/internal/reader"
	"github.com/lash-go/lash/session/internal/stack"
	"github.com/lash-go/lash/session/internal/states"
	"github.com/lash-go/lash/session/internal/watch"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
)

// Config is the input of [New].
type Config struct {
	Bus     *bus.Bus
	Actor   string // the actor of this host's commits. Defaults to "host"
	Plugins Plugins
	// States is the number of sessions whose states, and whose plugins, the host caches. Defaults to 1024.
	States int
	// StateBytes is the number of bytes of cached states, of one at least. Defaults to a twelfth of the machine's memory.
	StateBytes int64
	// Idle is how long the host keeps the subscription to a session that nothing waits for. Defaults to 30 s.
	Idle time.Duration
	// Trace receives the trace records. Nil disables tracing.
	Trace TraceFunc
	// TraceMetadata is part of the context of every record.
	TraceMetadata map[string]string

	// MaxQueued limits the waiting turns of one session. Defaults to [DefaultMaxQueued], and is at most [MostQueued].
	MaxQueued int
	// MaxSessionsPerCaller limits the open sessions of one owner; more are an [api.LimitError]. Sessions of other
	// hosts count once the directory has them. Defaults to no limit.
	MaxSessionsPerCaller int
	// MaxStoredPerCaller limits the bytes of all sessions of one owner, bodies included; requests that begin a session or a turn,
	// append messages or store bodies are an [api.LimitError] then. Sessions without an owner have no limit. Defaults to no
	// limit, where nothing is counted.
	MaxStoredPerCaller int64
	// Locks are settings that sessions cannot change.
	Locks lock.Locks
	// CheckModel refuses the model of a configuration, where a session is created with it or configured. It may call
	// the model's provider. Defaults to none: any model is accepted.
	CheckModel func(context.Context, events.Config) error

	// Environments are the names that configurations and monitors may give as their execution environment: others are refused.
	// Defaults to none: this host does not know them, and any name is accepted.
	Environments []string

	// ForbidSelfApproval refuses an approval by a caller that requested the turn or injected input into it. The rule
	// also applies to turns that follow from such a turn, for example a subagent's.
	ForbidSelfApproval bool

	// Signer returns the signer of the heads of histories and of tombstones, see package events/proof. The host calls it
	// for each head, so that keys can change. Defaults to none: the commits of this host have no heads.
	Signer func() *proof.Signer
	// Signed receives each head of this host, once it is in the log. It must not block. Defaults to none.
	Signed func(*proof.Head)

	// Filter replaces text of events before they are stored and folded. Defaults to none.
	Filter *blob.Filter

	Logger *zap.Logger // nil is silent
}

// Host decides requests on sessions and appends their events. It is safe for concurrent use.
type Host struct {
	api.Reader // state, views, lists, tasks and bodies

	cfg     Config  // with defaults
	process Process // see [Worker.Bind]

	b      *bus.Bus
	log    bus.Log
	blobs  blob.Store // for the bodies of events, which it filters
	logger *zap.Logger
	actor  events.Actor

	states  *states.Cache
	reader  *reader.Reader
	watcher *watch.Watcher

	plugins   *plugin.Builder // of cfg.Plugins; nil: none
	hints     *hint.Hints
	stacks    *stack.Stacks
	callbacks *callback.Callbacks
	quota     *quota.Counter // nil: no limit
}

var _ api.Service = (*Host)(nil)

// StoredByOwner returns the bytes of the sessions of each owner, where [Config.MaxStoredPerCaller] limits them.
func (h *Host) StoredByOwner(ctx context.Context) (map[string]int64, error) {
	return h.quota.Stored(ctx)
}

// DefaultMaxQueued is the default of [Config.MaxQueued], in turns.
const DefaultMaxQueued = 1024

// MostQueued is the upper bound of [Config.MaxQueued], in turns. The commit that closes a session ends all its
// scheduled turns and tasks, and must stay below the size limit.
const MostQueued = 4096

// New makes a host. The error lists every invalid field of cfg.
func New(cfg Config) (*Host, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("new host: %w", err)
	}
	reader, err := reader.New(cfg.Bus, cfg.States, cfg.StateBytes, cfg.Idle)
	if err != nil {
		return nil, fmt.Errorf("new host: %w", err)
	}
	h := &Host{
		cfg: cfg, b: cfg.Bus, log: cfg.Bus.Log(), blobs: cfg.Filter.Store(cfg.Bus), logger: cfg.Logger.Named("host"),
		actor:  events.Actor{Kind: events.ActorClient, ID: cfg.Actor},
		Reader: reader, states: reader.Cache(), reader: reader, watcher: watch.New(cfg.Bus, reader),
		hints: hint.New(cfg.Bus, "", nil), callbacks: callback.New(cfg.Bus, cfg.Logger.Named("host"), reader.Task),
		plugins: cfg.Plugins.builder, quota: quota.New(cfg.Bus, quota.Limits{Sessions: cfg.MaxSessionsPerCaller, Stored: cfg.MaxStoredPerCaller}),
	}
	h.stacks = stack.New(stack.Config{
		Plugins: cfg.Plugins.builder, Blobs: cfg.Bus, Locks: cfg.Locks, Logger: h.logger, Max: cfg.States,
		RuntimeHost: func(id events.SessionID) plugin.RuntimeHost { return h.Worker().RuntimeHost(id, nil, "") },
		CommitAt: func(ctx context.Context, id events.SessionID, seq events.Seq) (events.CommitID, error) {
			e, err := h.log.CommitAt(ctx, id, seq)
			if err != nil {
				return "", err
			}
			return e.Commit.ID, nil
		},
	})
	h.b.OnRemoval(h.stacks.Forget)
	return h, nil
}

func (c *Config) defaults() error {
	err := c.Check()
	c.Actor = cmp.Or(c.Actor, "host")
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	c.MaxQueued = cmp.Or(c.MaxQueued, DefaultMaxQueued)
	return err
}

// Check refuses fields that [New] refuses. The error has all problems.
func (c *Config) Check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Bus == nil {
		refuse("bus is required")
	}
	if c.MaxQueued < 0 || c.MaxQueued > MostQueued {
		refuse("max queued: %d, want 0 to %d", c.MaxQueued, MostQueued)
	}
	if c.MaxSessionsPerCaller < 0 {
		refuse("max sessions per caller: %d, want at least 0", c.MaxSessionsPerCaller)
	}
	if c.MaxStoredPerCaller < 0 {
		refuse("max stored per caller: %d, want at least 0", c.MaxStoredPerCaller)
	}
	if err := events.CheckUTF8("actor", c.Actor); err != nil {
		errs = append(errs, err)
	}
	if err := c.Locks.Check(); err != nil {
		refuse("locks: %w", err)
	}
	return errors.Join(errs...)
}

// decideFunc returns the events to append for a state; none where the state needs no change. It runs in:
//
//	decide              a decision of the host itself
//	decideByKey         a request: its key tells a repeat
//	decideByID          a request that creates something with an id: the id tells a repeat
//	decideTools         a request about tools: it calls the plugins first, see decideWithPlugins
//	decideMonitors      a request about monitors of an open session
//	decideTask          a decision about one task, for the task's record
//	decideOwnTask       a report of a program about a task that it runs
//	decideWithClaim     a report of a worker about a task that it has claimed
//	decideUntilAppended all of these end here; for a decision with further options
//
// A request whose plugins have effects first uses [Host.appliedBefore], which finds a repeat, and then
// [Host.withStackOf].
type decideFunc func(*projector.State) ([]events.Event, error)

// decide runs a decision that follows from a request, or that the host makes by itself; cause is that of the commit.
func (h *Host) decide(ctx context.Context, id events.SessionID, cause string, d decideFunc) error {
	return h.decideUntilAppended(ctx, id, decideOptions{meta: h.followingMeta(ctx, cause)}, d)
}

// decideByKey runs the decision of a client's request. Where the history already has the request it publishes the
// hints again.
func (h *Host) decideByKey(ctx context.Context, id events.SessionID, c requestContent, reqMeta api.RequestMeta, d decideFunc) error {
	meta, err := h.keyedMeta(ctx, c, reqMeta)
	if err != nil {
		return err
	}
	return h.decideUntilAppended(ctx, id, decideOptions{meta: meta, repeatHints: true}, d)
}

// decideByID is decideByKey for a request that creates something with an id.
func (h *Host) decideByID(ctx context.Context, id events.SessionID, c requestContent, reqMeta api.RequestMeta, d decideFunc) error {
	meta, err := h.keyedMetaByID(ctx, c, reqMeta)
	if err != nil {
		return err
	}
	return h.decideUntilAppended(ctx, id, decideOptions{meta: meta, repeatHints: true}, d)
}

// decideOptions are the options of [Host.decideUntilAppended].
type decideOptions struct {
	meta commitMeta
	// repeatHints publishes the hints of the state again where the decision appends nothing: the host that appended the
	// events may have stopped before it published them.
	repeatHints bool
	// then receives the resulting state, under the session's lock. Defaults to none.
	then func(s *projector.State, appended bool) error
}

// decideUntilAppended runs a decision until its events are committed or the decision refuses: fold, decide, append at
// that sequence; where the session has new commits, fold them and decide again. The first try uses the cached state: if
// that is behind, the append conflicts. Only a current state can refuse.
func (h *Host) decideUntilAppended(ctx context.Context, id events.SessionID, o decideOptions, d decideFunc) error {
	began := time.Now()
	for conflicts := 0; ; conflicts++ {
		err := h.tryDecide(ctx, id, o, d, conflicts > 0, began)
		if !errors.As(err, new(*events.ConflictError)) {
			if conflicts > 1 {
				h.b.ReleasePriority(id)
			}
			return err
		}
		if conflicts > 0 {
			h.b.RequestPriority(id, began)
		}
		if conflicts >= manyConflicts && !delay.Sleep(ctx, manyWait) {
			return context.Cause(ctx)
		}
	}
}

// After manyConflicts a decision waits before each new try, to limit the load on the server.
const (
	manyConflicts = 16
	manyWait      = 20 * time.Millisecond
)

// tryDecide makes one try, under the session's lock. It decides on the cached state, unless that is known to be old.
// Where that decision refuses or has no event, it reads the log and decides again: only the current state may say so.
// Errors: [*events.ConflictError] for another append in between.
func (h *Host) tryDecide(ctx context.Context, id events.SessionID, o decideOptions, d decideFunc, old bool, began time.Time) error {
	s, yielded, err := h.states.LockYielding(ctx, id, began)
	if err != nil {
		return err
	}
	defer s.Unlock()
	var list []events.Event
	for current := old || yielded || s.State == nil; ; current = true {
		if old {
			err = s.LoadAfterConflict(ctx)
		} else {
			err = s.Load(ctx, current)
		}
		if err != nil {
			return err
		}
		list, err = h.decideOrRepeat(ctx, s.State, o.meta, d, current)
		if current || err == nil && len(list) > 0 {
			break
		}
	}
	if err == nil && len(list) > 0 {
		err = h.appendLocked(ctx, s, o.meta, list)
	}
	if err == nil && o.then != nil {
		err = o.then(s.State, len(list) > 0)
	}
	if err == nil && o.repeatHints && len(list) == 0 {
		err = h.hints.RepeatTurn(ctx, s.State)
	}
	return err
}

// commit builds the commit of the events, and moves large bodies to blobs. It refuses a request that may only read.
func (h *Host) commit(ctx context.Context, id events.SessionID, meta commitMeta, list []events.Event) (*events.Commit, error) {
	if err := mayAppend(ctx); err != nil {
		return nil, err
	}
	for i := range list {
		p, err := blob.Spill(ctx, h.blobs, list[i].Payload)
		if err != nil {
			return nil, err
		}
		list[i].Payload = p
	}
	salt, digest := NewSalt(), meta.digest
	if digest != "" {
		digest = events.SaltDigest(salt, digest)
	}
	return &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: h.b.Millis(),
		Actor: meta.actor, Cause: meta.cause, Key: meta.key, Digest: digest, Salt: salt, Events: list,
	}, nil
}

// NewSalt is a random salt of a commit.
func NewSalt() []byte {
	salt := make([]byte, events.SaltBytes)
	_, _ = rand.Read(salt) // never fails
	return salt
}

// mayAppend refuses a request that may only read.
func mayAppend(ctx context.Context) error {
	if api.ReadsOnly(ctx) {
		return fmt.Errorf("%w: what needs the right %q alone appends nothing", api.ErrForbidden, api.RightRead)
	}
	return nil
}

// cached returns a copy of the cached state, which may be behind the log. inspect may refuse it.
func (h *Host) cached(ctx context.Context, id events.SessionID, inspect func(*projector.State) error) (s *projector.State, err error) {
	err = h.states.Inspect(ctx, id, false, func(now *projector.State) error {
		if err := inspect(now); err != nil {
			return err
		}
		s = now.Clone()
		return nil
	})
	return s, err
}
