package workers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/internal/task"
	"github.com/lash-go/lash/workers/internal/wake"
	"github.com/lash-go/lash/workers/llm"
)

var (
	// ErrSuperseded is the cause that ends the context of a task that another worker has taken over.
	ErrSuperseded = wake.ErrSuperseded
	// ErrStopped is the cause of what the hard stop of a node cancels.
	ErrStopped = wake.ErrStopped
	// ErrTaskCancelled is the cause that ends the context of a cancelled task.
	ErrTaskCancelled = task.ErrTaskCancelled
	// ErrOutOfTouch is the cause that ends the context of a task whose worker has lost touch with the queue.
	ErrOutOfTouch = task.ErrOutOfTouch
)

type (
	// TaskFunc does a background task's work; see [Config.Runners].
	TaskFunc = task.Func
	// RunningTask is what a task's function knows of itself.
	RunningTask = task.Running
	// Tasks runs the background tasks of a node.
	Tasks = task.Service
	// JobRetry says how often, and when, work is tried again whose attempts fail one after the other.
	JobRetry = wake.Retry
)

// Builtins are the protocols that come with workers: "standard", which is the default, and "code".
func Builtins() []plugin.Factory {
	return []plugin.Factory{standard.Factory(), code.Factory(code.Config{})}
}

// Config of a worker.
type Config struct {
	Bus       *bus.Bus
	Providers map[string]llm.Provider // by id
	Provider  string                  // of sessions that name none; one of Providers. Without it such sessions have none
	Model     string                  // of sessions that name none
	// Plugins of the sessions. Defaults to [Builtins] and Tools.
	Plugins *plugin.Host
	// Tools offered to a session, where no Plugins are given. Defaults to none.
	Tools func(events.SessionID) *plugin.Tools
	// Trace takes what plugins and sessions trace, see [TraceFile]. Defaults to none.
	Trace session.TraceFunc
	// TraceMetadata is part of the context of every record, beside the worker's id.
	TraceMetadata map[string]string
	// Runners of background tasks, by the name that tasks are registered with.
	Runners map[string]TaskFunc

	// ArchiveAfter is how long a session has no work before a [Node] makes it cold. Defaults to 30 min; negative keeps it hot.
	ArchiveAfter time.Duration
	// Retain is how long a session that does not say is kept after its last event, before a [Node] erases it. Defaults to for ever.
	Retain time.Duration

	// Scopes are what users of other NATS accounts may ask a [Node] for, by name:
	// nil lets all of them do everything but run commands.
	Scopes map[string]api.Reach
	// ForbidSelfApproval refuses callers of a [Node] that approve calls of turns that they asked for, see [session.Config],
	// and locks the options of package gate: who could set those would have no questions asked.
	ForbidSelfApproval bool
	// MaxSessionsPerCaller is how many open sessions one caller may own, see [session.Config]. Defaults to any number.
	MaxSessionsPerCaller int
	// Locks are what sessions cannot change, for every caller. All nodes of a fleet should have the same.
	Locks lock.Locks
	// Access gets a record of each request that a [Node] answered over NATS. Defaults to none.
	Access accesslog.Func
	// Roles of a [Node]: what it does. Defaults to all.
	Roles []Role

	Concurrency int           // sessions whose turns run at once, beside those that wait for another's. Defaults to 256
	HeldTasks   int           // background tasks that run at once. Defaults to 1024
	HeldTools   int           // tool calls of turns elsewhere that run at once. Defaults to 256
	Linger      time.Duration // see package turn. Defaults to 2 ms; negative is 0
	MaxQueued   int           // turns that may wait in one session. Defaults to 1024
	ModelRetry  ModelRetry
	JobRetry    JobRetry
	// Patience is how long other nodes are left a session whose plugins this one
	// cannot build, before its turn ends with that reason. Defaults to 30 s.
	Patience time.Duration
	Sessions int         // states kept between turns. Defaults to 1024
	Logger   *zap.Logger // nil is silent
	// Name of the node, the same in every run of it and no other node's; may be
	// empty. A node that comes back goes on at once with what its last run left,
	// instead of making sure for a moment that that one is gone.
	Name string
	// ID of this run of the worker, its name and a dash first where it has one. Defaults to a new one.
	ID events.WorkerID
}

// MaxName is how long a node's name may be, in bytes: it leaves room in the
// id for what makes it a run's own.
const MaxName = events.MaxTokenBytes - len("-") - ulid.EncodedSize

// ModelRetry says how failed model calls are tried again (host specification 3.8).
type ModelRetry struct {
	Attempts int           // in all. Defaults to 4
	Base     time.Duration // doubles. Defaults to 2 s
	Max      time.Duration // of one wait. Defaults to 10 s
	MaxAfter time.Duration // cap of what a provider asks for. Defaults to 60 s
}

func (c *Config) defaults() error {
	var errs []error
	if c.Bus == nil {
		errs = append(errs, errors.New("bus is required"))
	}
	if _, ok := c.Providers[c.Provider]; !ok && c.Provider != "" {
		errs = append(errs, fmt.Errorf("provider %q is not among the providers", c.Provider))
	}
	if c.Plugins == nil {
		stack := plugin.HostConfig{Builtins: Builtins()}
		if c.Tools != nil {
			stack.Factories = append(stack.Factories, plugin.OfTools("tools", c.Tools))
		}
		var err error
		c.Plugins, err = plugin.NewHost(stack)
		errs = append(errs, err)
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("concurrency: %d, want at least 1", c.Concurrency))
	}
	if err := c.Locks.CheckOwn(c.Provider, c.Model); err != nil {
		errs = append(errs, fmt.Errorf("locks: %w", err))
	}
	if c.ForbidSelfApproval {
		c.Locks.Plugins = append(slices.Clone(c.Locks.Plugins), gate.ID)
	}
	errs = append(errs, c.JobRetry.Defaults())
	if c.MaxQueued < 0 {
		errs = append(errs, fmt.Errorf("max queued: %d, want at least 1", c.MaxQueued))
	}
	if c.MaxQueued > session.MostQueued {
		errs = append(errs, fmt.Errorf("max queued: %d, want at most %d", c.MaxQueued, session.MostQueued))
	}
	if c.HeldTasks < 0 || c.HeldTools < 0 {
		errs = append(errs, fmt.Errorf("held tasks: %d, held tools: %d, want at least 1", c.HeldTasks, c.HeldTools))
	}
	for _, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			errs = append(errs, fmt.Errorf("role %q, want some of %v", role, Roles()))
		}
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	c.ArchiveAfter = cmp.Or(c.ArchiveAfter, 30*time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.HeldTasks = cmp.Or(c.HeldTasks, 1024)
	c.HeldTools = cmp.Or(c.HeldTools, 256)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.MaxQueued = cmp.Or(c.MaxQueued, session.DefaultMaxQueued)
	c.Sessions = cmp.Or(c.Sessions, 1024)
	c.Linger = max(cmp.Or(c.Linger, 2*time.Millisecond), 0)
	c.ModelRetry.Attempts = cmp.Or(c.ModelRetry.Attempts, 4)
	c.ModelRetry.Base = cmp.Or(c.ModelRetry.Base, 2*time.Second)
	c.ModelRetry.Max = cmp.Or(c.ModelRetry.Max, 10*time.Second)
	c.ModelRetry.MaxAfter = cmp.Or(c.ModelRetry.MaxAfter, time.Minute)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	if c.Name != "" {
		errs = append(errs, events.CheckToken("name", c.Name))
	}
	if len(c.Name) > MaxName {
		errs = append(errs, fmt.Errorf("name: %d bytes, limit is %d", len(c.Name), MaxName))
	}
	if c.ID == "" {
		c.ID = events.WorkerID(ulid.Make().String())
		if c.Name != "" {
			c.ID = events.WorkerID(c.Name) + "-" + c.ID
		}
	}
	c.TraceMetadata = maps.Clone(c.TraceMetadata)
	if c.TraceMetadata == nil {
		c.TraceMetadata = make(map[string]string)
	}
	c.TraceMetadata["worker"] = string(c.ID)
	return errors.Join(errs...)
}
