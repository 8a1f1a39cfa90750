package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// Registrar collects the tools, hooks and other registrations of one plugin.
type Registrar struct {
	plugin string
	c      *contributions
	errs   []error
}

func (r *Registrar) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// slot fills a registration that at most one plugin of a stack may make.
func slot[T any](r *Registrar, name string, at **Owned[T], value T) {
	if *at != nil {
		r.fail("%s is registered by %s and by %s", name, (*at).Plugin, r.plugin)
		return
	}
	*at = &Owned[T]{r.plugin, value}
}

func owned[T any](r *Registrar, value T) Owned[T] { return Owned[T]{r.plugin, value} }

// Tools adds all tools of a set.
func (r *Registrar) Tools(set *Tools) error {
	var errs []error
	for i := range set.entries {
		errs = append(errs, r.addTool(set.byName[set.entries[i].Name]))
	}
	return errors.Join(errs...)
}

func (r *Registrar) add(tool Tool, run Handler) error {
	if err := events.CheckToken("tool.name", tool.Name); err != nil {
		return err
	}
	bound, err := bind(tool, run)
	if err != nil {
		return err
	}
	return r.addTool(bound)
}

func (r *Registrar) addTool(tool *BoundTool) error {
	if other, taken := r.c.tools.byName[tool.Name]; taken {
		return fmt.Errorf("tool %s is registered by %s and by %s", tool.Name, cmp.Or(r.c.owners[tool.Name], other.Source), r.plugin)
	}
	if tool.Source == "" {
		clone := *tool
		clone.Source, clone.entry.Source = r.plugin, r.plugin
		tool = &clone
	}
	if tool.Source != r.plugin {
		r.c.owners[tool.Name] = r.plugin
	}
	r.c.tools.byName[tool.Name] = tool // complete orders them
	return nil
}

// BeforeTurn adds a hook that runs before a turn's first model call.
func (r *Registrar) BeforeTurn(fn HookFunc[TurnContext]) {
	r.c.beforeTurn = append(r.c.beforeTurn, owned(r, fn))
}

// BeforeModelCall adds a hook that runs before each model call of a turn, once for all its attempts and fallbacks. Besides
// [Abort], [CreateSession], [Emit] and [Trace], it can return [Contribute], [SystemPrompt] and [SwitchFrame].
func (r *Registrar) BeforeModelCall(fn HookFunc[ModelContext]) {
	r.c.beforeModel = append(r.c.beforeModel, owned(r, fn))
}

// Checkpoint adds a hook that runs between the results of a reply's calls and the next model call, and before a
// turn's end.
func (r *Registrar) Checkpoint(fn HookFunc[CheckpointContext]) {
	r.c.checkpoint = append(r.c.checkpoint, owned(r, fn))
}

// AfterTurn adds a hook that runs before a turn's end is recorded.
func (r *Registrar) AfterTurn(fn HookFunc[TurnResultContext]) {
	r.c.afterTurn = append(r.c.afterTurn, owned(r, fn))
}

// BeforeToolCall adds a hook that runs before each tool call. Every such hook sees the model's own arguments,
// and a later one may replace them: rules about arguments belong into [Registrar.AuthorizeToolCall].
func (r *Registrar) BeforeToolCall(fn HookFunc[ToolContext]) {
	r.c.beforeTool = append(r.c.beforeTool, owned(r, fn))
}

// AuthorizeToolCall adds a hook that decides whether a call may run. It runs after all hooks of
// [Registrar.BeforeToolCall], and its input has the arguments that the call would run with: those of the last
// [ReplaceArgs], else the model's. It can return [Abort], [Ask], [AskWithin], [JudgePlaces], [Emit] and [Trace]; it cannot
// change the call. It does not run where a hook before the call has aborted it. An error fails the call.
func (r *Registrar) AuthorizeToolCall(fn HookFunc[ToolContext]) {
	r.c.authorize = append(r.c.authorize, owned(r, fn))
}

// AfterToolCall adds a hook that runs after each tool call, except calls that a hook answered with [ShortCircuit] or
// [Abort], that were not approved, or whose tool is not offered.
func (r *Registrar) AfterToolCall(fn HookFunc[ToolResultContext]) {
	r.c.afterTool = append(r.c.afterTool, owned(r, fn))
}

// Prompt adds a function that contributes to prompts.
func (r *Registrar) Prompt(fn PromptFunc) { r.c.prompt = append(r.c.prompt, owned(r, fn)) }

// TransformContext adds a function that changes the messages which the model sees. Higher priorities run first.
func (r *Registrar) TransformContext(priority int, fn TransformFunc) {
	r.c.transforms = append(r.c.transforms, owned(r, ranked[TransformFunc]{priority, fn}))
}

// Compact adds a function that summarises the conversation into a new frame. Higher priorities run first.
func (r *Registrar) Compact(priority int, fn CompactFunc) {
	r.c.compactors = append(r.c.compactors, owned(r, ranked[CompactFunc]{priority, fn}))
}

// Stream adds a function that transforms a reply's text while it arrives.
func (r *Registrar) Stream(fn StreamFunc) { r.c.streams = append(r.c.streams, owned(r, fn)) }

// StreamEnd adds a function that runs when a stream ends.
func (r *Registrar) StreamEnd(fn StreamEndFunc) {
	r.c.streamEnds = append(r.c.streamEnds, owned(r, fn))
}

// Response adds a function that transforms a whole reply before it is recorded.
func (r *Registrar) Response(fn ResponseFunc) { r.c.responses = append(r.c.responses, owned(r, fn)) }

// MutateConfig adds a function that may change a configuration that a host sets.
func (r *Registrar) MutateConfig(fn MutateFunc) { r.c.mutators = append(r.c.mutators, owned(r, fn)) }

// Lifecycle adds a function that receives the session's lifecycle events. All such functions run concurrently; their
// errors are logged.
func (r *Registrar) Lifecycle(fn LifecycleFunc) { r.c.lifecycle = append(r.c.lifecycle, owned(r, fn)) }

// Catalog adds a function that changes which tools the session offers.
func (r *Registrar) Catalog(fn CatalogFunc) { r.c.catalog = append(r.c.catalog, owned(r, fn)) }

// Monitor declares a monitor for every session. The monitor's id is "<plugin>-<id>".
func (r *Registrar) Monitor(spec events.MonitorSpec) {
	r.c.monitors = append(r.c.monitors, owned(r, spec))
}

// ProjectToolResult sets the function that makes the model's view of a tool result. At most one plugin sets it.
func (r *Registrar) ProjectToolResult(fn ProjectFunc) {
	slot(r, "tool result projector", &r.c.projector, fn)
}

// Protocol sets the session's protocol. Exactly one plugin sets it.
func (r *Registrar) Protocol(p Protocol) { slot(r, "protocol session", &r.c.protocol, p) }

// Driver sets how prompts are built and replies are read. Exactly one plugin sets it.
func (r *Registrar) Driver(d Driver) { slot(r, "protocol driver", &r.c.driver, d) }

// CodeExecutor sets the executor of the model's code. At most one plugin sets it.
func (r *Registrar) CodeExecutor(e CodeExecutor) { slot(r, "code executor", &r.c.executor, e) }

// ProjectProse sets the function that makes the text which users see of the model's prose (safe_text of an assembled
// turn). At most one plugin sets it. It runs once for each reply, and the result is recorded with the reply.
func (r *Registrar) ProjectProse(fn ProseFunc) {
	slot(r, "assistant prose projector", &r.c.proseProject, fn)
}

// sorted puts the registrations that have priorities in order.
func (c *contributions) sorted() {
	slices.SortStableFunc(c.transforms, func(a, b Owned[ranked[TransformFunc]]) int {
		return cmp.Compare(b.Value.priority, a.Value.priority)
	})
	slices.SortStableFunc(c.compactors, func(a, b Owned[ranked[CompactFunc]]) int {
		return cmp.Compare(b.Value.priority, a.Value.priority)
	})
}
