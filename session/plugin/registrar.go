package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// Registrar takes what one plugin declares.
type Registrar struct {
	plugin string
	c      *contributions
	errs   []error
}

// contributions is everything that a stack's plugins registered, in stack order.
type contributions struct {
	tools        *Tools
	owners       map[string]string // of tools
	reserved     map[toolID]*Registered
	sources      map[string]Owned[SourceFunc] // by name
	beforeTurn   []Owned[HookFunc[TurnContext]]
	checkpoint   []Owned[HookFunc[CheckpointContext]]
	afterTurn    []Owned[HookFunc[TurnResultContext]]
	beforeTool   []Owned[HookFunc[ToolContext]]
	afterTool    []Owned[HookFunc[ToolResultContext]]
	prompt       []Owned[PromptFunc]
	transforms   []Owned[ranked[TransformFunc]]
	compactors   []Owned[ranked[CompactFunc]]
	streams      []Owned[StreamFunc]
	streamEnds   []Owned[StreamEndFunc]
	responses    []Owned[ResponseFunc]
	mutators     []Owned[MutateFunc]
	lifecycle    []Owned[LifecycleFunc]
	catalog      []Owned[CatalogFunc]
	actions      map[string]Owned[action]
	monitors     []Owned[events.MonitorSpec]
	projector    *Owned[ProjectFunc]
	protocol     *Owned[Protocol]
	driver       *Owned[Driver]
	executor     *Owned[CodeExecutor]
	proseProject *Owned[ProseFunc]
}

type ranked[T any] struct {
	priority int
	fn       T
}

func (r *Registrar) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// slot fills a place that takes one registration.
func slot[T any](r *Registrar, name string, at **Owned[T], value T) {
	if *at != nil {
		r.fail("%s is registered by %s and by %s", name, (*at).Plugin, r.plugin)
		return
	}
	*at = &Owned[T]{r.plugin, value}
}

func owned[T any](r *Registrar, value T) Owned[T] { return Owned[T]{r.plugin, value} }

// Tools adds the tools of a set.
func (r *Registrar) Tools(set *Tools) error {
	var errs []error
	for _, name := range set.names() {
		errs = append(errs, r.addTool(set.byName[name]))
	}
	return errors.Join(errs...)
}

func (r *Registrar) add(tool Tool, run Handler) error {
	if err := events.CheckToken("tool.name", tool.Name); err != nil {
		return err
	}
	registered, err := register(tool, run)
	if err != nil {
		return err
	}
	return r.addTool(registered)
}

func (r *Registrar) addTool(tool *Registered) error {
	if owner, taken := r.c.owners[tool.Name]; taken {
		return fmt.Errorf("tool %s is registered by %s and by %s", tool.Name, owner, r.plugin)
	}
	r.c.owners[tool.Name] = r.plugin
	if tool.Source == "" {
		clone := *tool
		clone.Source, clone.entry.Source = r.plugin, r.plugin
		tool = &clone
	}
	return r.c.tools.put(tool)
}

// BeforeTurn hooks run before a turn's first model call.
func (r *Registrar) BeforeTurn(fn HookFunc[TurnContext]) {
	r.c.beforeTurn = append(r.c.beforeTurn, owned(r, fn))
}

// Checkpoint hooks run between a reply's results and the next model call, and before a turn's end.
func (r *Registrar) Checkpoint(fn HookFunc[CheckpointContext]) {
	r.c.checkpoint = append(r.c.checkpoint, owned(r, fn))
}

// AfterTurn hooks run before a turn's end is recorded.
func (r *Registrar) AfterTurn(fn HookFunc[TurnResultContext]) {
	r.c.afterTurn = append(r.c.afterTurn, owned(r, fn))
}

// BeforeToolCall hooks run before each tool call, all with the model's own arguments.
func (r *Registrar) BeforeToolCall(fn HookFunc[ToolContext]) {
	r.c.beforeTool = append(r.c.beforeTool, owned(r, fn))
}

// AfterToolCall hooks run after each tool call that was not answered in the tool's place.
func (r *Registrar) AfterToolCall(fn HookFunc[ToolResultContext]) {
	r.c.afterTool = append(r.c.afterTool, owned(r, fn))
}

// Prompt adds a contributor to the prompt.
func (r *Registrar) Prompt(fn PromptFunc) { r.c.prompt = append(r.c.prompt, owned(r, fn)) }

// TransformContext shapes what a turn shows of the conversation. Higher priorities run first.
func (r *Registrar) TransformContext(priority int, fn TransformFunc) {
	r.c.transforms = append(r.c.transforms, owned(r, ranked[TransformFunc]{priority, fn}))
}

// Compact offers to summarise the conversation into a new frame. Higher priorities are asked first.
func (r *Registrar) Compact(priority int, fn CompactFunc) {
	r.c.compactors = append(r.c.compactors, owned(r, ranked[CompactFunc]{priority, fn}))
}

// Stream transforms a reply's text as it arrives.
func (r *Registrar) Stream(fn StreamFunc) { r.c.streams = append(r.c.streams, owned(r, fn)) }

// StreamEnd is told how a stream ended.
func (r *Registrar) StreamEnd(fn StreamEndFunc) {
	r.c.streamEnds = append(r.c.streamEnds, owned(r, fn))
}

// Response transforms a whole reply before it is recorded.
func (r *Registrar) Response(fn ResponseFunc) { r.c.responses = append(r.c.responses, owned(r, fn)) }

// MutateConfig may change a configuration that a host sets.
func (r *Registrar) MutateConfig(fn MutateFunc) { r.c.mutators = append(r.c.mutators, owned(r, fn)) }

// Lifecycle is told of a session's events. All are told at once; errors are logged.
func (r *Registrar) Lifecycle(fn LifecycleFunc) { r.c.lifecycle = append(r.c.lifecycle, owned(r, fn)) }

// Catalog changes which tools the session offers.
func (r *Registrar) Catalog(fn CatalogFunc) { r.c.catalog = append(r.c.catalog, owned(r, fn)) }

// Monitor declares a monitor of every session. Its id is "<plugin>-<id>".
func (r *Registrar) Monitor(spec events.MonitorSpec) {
	r.c.monitors = append(r.c.monitors, owned(r, spec))
}

// ProjectToolResult sets what the model reads of tool results. One plugin may.
func (r *Registrar) ProjectToolResult(fn ProjectFunc) {
	slot(r, "tool result projector", &r.c.projector, fn)
}

// Protocol sets the protocol's session. Exactly one plugin must.
func (r *Registrar) Protocol(p Protocol) { slot(r, "protocol session", &r.c.protocol, p) }

// Driver sets how prompts are built and replies are read. Exactly one plugin must.
func (r *Registrar) Driver(d Driver) { slot(r, "protocol driver", &r.c.driver, d) }

// CodeExecutor sets what runs the model's code. One plugin may.
func (r *Registrar) CodeExecutor(e CodeExecutor) { slot(r, "code executor", &r.c.executor, e) }

// ProjectProse sets what users see of the model's prose, in the turn as it is put together (safe_text).
// One plugin may. It is asked once for each reply, and recorded with it.
func (r *Registrar) ProjectProse(fn ProseFunc) {
	slot(r, "assistant prose projector", &r.c.proseProject, fn)
}

// sorted puts what has priorities in order.
func (c *contributions) sorted() {
	slices.SortStableFunc(c.transforms, func(a, b Owned[ranked[TransformFunc]]) int {
		return cmp.Compare(b.Value.priority, a.Value.priority)
	})
	slices.SortStableFunc(c.compactors, func(a, b Owned[ranked[CompactFunc]]) int {
		return cmp.Compare(b.Value.priority, a.Value.priority)
	})
}
