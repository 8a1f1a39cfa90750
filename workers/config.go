package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/task"
	"github.com/lash-go/lash/workers/internal/wake"
	"github.com/lash-go/lash/workers/llm"
)

var (
	// ErrSuperseded cancels the context of a task that another worker has taken over.
	ErrSuperseded = wake.ErrSuperseded
	// ErrStopped cancels the work that still runs at the hard stop of a node.
	ErrStopped = wake.ErrStopped
	// ErrTaskCancelled cancels the context of a task that a client or a plugin cancelled.
	ErrTaskCancelled = task.ErrTaskCancelled
	// ErrQueueUnreachable cancels the context of a task whose worker cannot reach the queue.
	ErrQueueUnreachable = task.ErrQueueUnreachable
)

type (
	// TaskFunc does the work of a background task; see [Config.Runners].
	TaskFunc = task.Func
	// RunningTask is the handle of a task's function: its request, its progress, its session.
	RunningTask = task.Running
	// Tasks is the service of background tasks of a node.
	Tasks = task.Service
	// JobRetry sets the attempts and the waits of turns and tasks that fail repeatedly.
	JobRetry = wake.Retry
	// ModelRetry sets the retries of failed model calls.
	ModelRetry = call.Retry
	// ModelSilence sets how long a model may send no content, before its reply and within it.
	ModelSilence = call.Silence
	// SilenceOf is the limit of some models in a [ModelSilence].
	SilenceOf = call.ModelSilence
)

// Builtins are the protocols of this module: "standard", the default, and "code".
func Builtins() []plugin.Factory {
	return []plugin.Factory{standard.Factory(), code.Factory(code.Config{})}
}

// Config configures a [Node]. Bus is required; every other field has a default.
type Config struct {
	Bus       *bus.Bus                // required
	Providers map[string]llm.Provider // by id
	Provider  string                  // of sessions that name none; a key of Providers. Empty: such sessions have no provider
	Model     string                  // of sessions that name none
	// Plugins of the sessions. Defaults to [Builtins] and Tools.
	Plugins *plugin.Builder
	// Tools of a session, if Plugins is nil. Defaults to none.
	Tools func(events.SessionID) *plugin.Tools
	// Trace receives the trace records of plugins and sessions, see [TraceFile]. Defaults to none.
	Trace session.TraceFunc
	// TraceMetadata is added to the context of every trace record, with the worker's id.
	TraceMetadata map[string]string
	// Runners of background tasks, by the name that a task is registered with.
	Runners map[string]TaskFunc

	// ArchiveAfter is the time without work after which a [Node] makes a session cold. Defaults to 30 min; negative
	// keeps sessions hot.
	ArchiveAfter time.Duration
	// Retain is the time after its last event at which a [Node] erases a session that sets none itself. Defaults to
	// for ever.
	Retain time.Duration

	// Scopes are the rights of users of other NATS accounts, by the server's name of the user; nil gives all of them every
	// right except command.
	Scopes map[string]api.Reach
	// Memory is about how much of the machine's memory what is said in sessions may have on this node, in bytes, see [memory.Divide]. Defaults to
	// [memory.Default].
	Memory int64
	// ForbidSelfApproval refuses an approval by the caller that requested the turn, see [session.Config]. It also
	// locks the options of package gate: a caller that sets these can turn approvals off.
	ForbidSelfApproval bool
	// MaxSessionsPerCaller limits the open sessions of one caller, see [session.Config]. Defaults to no limit.
	MaxSessionsPerCaller int
	// MaxStoredPerCaller limits the bytes of the sessions of one caller, see [session.Config]. Defaults to no limit.
	MaxStoredPerCaller int64
	// CheckModel refuses models of sessions, see [session.Config]. Defaults to none.
	CheckModel func(context.Context, events.Config) error
	// Environments are where commands and programs of sessions run, by the name that sessions give. A turn goes to a node that has its
	// environment; nodes that run tools and tasks need all that sessions name. Defaults to [events.DefaultEnvironment] alone, of which the plugins know the directory.
	Environments plugin.Environments
	// Locks are settings that no caller may change. All nodes of a fleet need the same ones.
	Locks lock.Locks
	// Filter replaces text of events before they are stored and folded. With it nothing is streamed before its commit.
	// Defaults to none. All nodes of a fleet need the same one.
	Filter *blob.Filter
	// Signer returns the signer of the heads of histories and of tombstones, see [session.Config]. Defaults to none.
	Signer func() *proof.Signer
	// Signed receives each signed head of this node, see [session.Config]. Defaults to none.
	Signed func(*proof.Head)
	// Access receives a record of each request that a [Node] responded to over NATS. Defaults to none.
	Access accesslog.Func
	// Roles of a [Node]. Defaults to all.
	Roles []Role

	Concurrency     int           // sessions whose turns run at once, and as many of agents, without those that wait for another session. Defaults to 256
	TaskConcurrency int           // background tasks that run at once, without those that wait for a turn. Defaults to 1024
	ToolConcurrency int           // tool calls that run at once here for turns of other workers, without those that wait for a turn. Defaults to 256
	Linger          time.Duration // how long results that may wait share one append. Defaults to 2 ms; negative is 0
	MaxQueued       int           // turns that may wait in one session. Defaults to 1024
	ModelRetry      ModelRetry
	ModelSilence    ModelSilence
	JobRetry        JobRetry
	// Patience is how long other nodes may take a turn whose plugins this node cannot build, or whose environment it lacks.
	// Then the turn fails with that reason. Defaults to 30 s.
	Patience time.Duration
	Sessions int // sessions whose states, and whose plugins, are cached between turns. Defaults to 1024
	// Idle is how long the node keeps the subscription to a session that nothing waits for. Defaults to 30 s.
	Idle   time.Duration
	Logger *zap.Logger // nil logs nothing
	// Name of the node. It is unique in the fleet and the same at every start; empty is allowed. A node that has a
	// name wakes at its start, without delay, the sessions that its last run may have worked on.
	Name string
	// ID of this run of the node. Defaults to a new one, which begins with Name and a dash if there is a name.
	ID events.WorkerID
}

// MaxName is the limit of [Config.Name] in bytes. The rest of an id is for the part that is unique to a run.
const MaxName = events.MaxTokenBytes - len("-") - ulid.EncodedSize

// defaults sets the defaults and checks the fields. The error has all problems.
func (c *Config) defaults() error {
	host := c.host()
	errs := []error{host.Check(), c.check(), c.setPlugins(), c.JobRetry.Defaults(), c.ModelRetry.Defaults(), c.ModelSilence.Defaults()}
	if c.ForbidSelfApproval {
		c.Locks.Plugins = append(slices.Clone(c.Locks.Plugins), gate.ID)
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	c.ArchiveAfter = cmp.Or(c.ArchiveAfter, 30*time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.TaskConcurrency = cmp.Or(c.TaskConcurrency, 1024)
	c.ToolConcurrency = cmp.Or(c.ToolConcurrency, 256)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Sessions = cmp.Or(c.Sessions, 1024)
	c.Linger = max(cmp.Or(c.Linger, 2*time.Millisecond), 0)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	c.setID()
	return errors.Join(errs...)
}

// host is the configuration of the node's host.
func (c *Config) host() session.Config {
	return session.Config{
		Bus: c.Bus, Actor: string(c.ID), Plugins: session.WithPlugins(c.Plugins), Logger: c.Logger,
		Trace: c.Trace, TraceMetadata: c.TraceMetadata, MaxQueued: c.MaxQueued, States: c.Sessions, StateBytes: memory.Divide(c.Memory).States, Idle: c.Idle, ForbidSelfApproval: c.ForbidSelfApproval,
		Locks: c.Locks, Environments: c.Environments.Names(), CheckModel: c.CheckModel, MaxSessionsPerCaller: c.MaxSessionsPerCaller, MaxStoredPerCaller: c.MaxStoredPerCaller,
		Signer: c.Signer, Signed: c.Signed, Filter: c.Filter,
	}
}

// check refuses fields that [session.Config.Check] does not.
func (c *Config) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, ok := c.Providers[c.Provider]; !ok && c.Provider != "" {
		refuse("provider %q is not among the providers", c.Provider)
	}
	if c.Concurrency < 0 {
		refuse("concurrency: %d is negative", c.Concurrency)
	}
	if err := c.Locks.CheckOwn(c.Provider, c.Model); err != nil {
		refuse("locks: %w", err)
	}
	if c.TaskConcurrency < 0 || c.ToolConcurrency < 0 {
		refuse("task concurrency: %d, tool concurrency: %d, one is negative", c.TaskConcurrency, c.ToolConcurrency)
	}
	for _, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			refuse("role %q, want some of %v", role, Roles())
		}
	}
	if c.Name != "" {
		errs = append(errs, events.CheckToken("name", c.Name))
	}
	if len(c.Name) > MaxName {
		refuse("name: %d bytes, limit is %d", len(c.Name), MaxName)
	}
	return errors.Join(errs...)
}

func (c *Config) setPlugins() (err error) {
	if c.Plugins != nil {
		return nil
	}
	plugins := plugin.BuilderConfig{Builtins: Builtins()}
	if c.Tools != nil {
		plugins.Factories = append(plugins.Factories, plugin.OfTools("tools", c.Tools))
	}
	c.Plugins, err = plugin.NewBuilder(plugins)
	return err
}

// setID sets the id of this run of the node, also in its trace records.
func (c *Config) setID() {
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
}
