// Package plugin is the package that plugin authors import. It declares tools, hooks, protocols and the capabilities
// that a host offers to them. It also builds the stack of plugins of a session and calls it.
//
// # A first plugin
//
// A [Factory] builds one [Plugin] for each session. [Func] is the shortest way to one: a function that registers tools
// and hooks.
//
//	plugin.Func("greeter", func(r *plugin.Registrar) error {
//		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
//			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "Greet the user."))}, nil
//		})
//		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: events.EffectsNone},
//			func(ctx context.Context, call plugin.Call, in struct{ A, B int }) (int, error) {
//				return in.A + in.B, nil
//			})
//		return nil
//	})
//
// Then, in the order in which most plugins need them:
//
//   - tools: [AddTool], [Tool], [Call], [Result], [Failure]; one tool without more is [OfTool]
//   - hooks around turns and calls: [HookFunc], the methods of [Registrar], and [Directive]
//   - options of a session for a plugin: [WithOptions], [DecodeOptions]
//   - state in the session's history: embed [State], or implement [Stateful]
//   - prompts: [PromptFunc], [TransformFunc], [CompactFunc]
//   - operations that hosts call by name: [AddAction]
//   - tools that sessions get later: [Registrar.Source]
//   - protocols, which build prompts and read replies: [Protocol], [Driver], [OfDriver]
//
// Most authors do not need [Builder] and [Stack]: the runtime builds a session's stack with [Builder.BuildStack] and calls
// it through [Stack].
//
// # Hooks
//
// Hooks run in the order of the stack. A hook is contained: a panic, a run longer than the timeout of hooks, and an
// invalid result are errors of the plugin. The record of an error has the plugin's id.
//
//	hook                         input               an error of it
//	Registrar.TransformContext   TransformContext    ends the turn
//	Registrar.BeforeTurn         TurnContext         ends the turn
//	Registrar.Prompt             PromptContext       ends the turn
//	Registrar.BeforeModelCall    ModelContext        ends the turn
//	Registrar.Stream, Response   text, Response      fails the model call
//	Registrar.BeforeToolCall     ToolContext         fails this call; the turn goes on
//	Registrar.AuthorizeToolCall  ToolContext         fails this call; the turn goes on
//	Registrar.AfterToolCall      ToolResultContext   makes this call's result a failure
//	Registrar.ProjectToolResult  ToolResultContext   becomes the model's view of the result
//	Registrar.Checkpoint         CheckpointContext   ends the turn
//	Registrar.AfterTurn          TurnResultContext   fails the turn before its end is recorded
//	Registrar.Lifecycle          Lifecycle           is logged
//	Registrar.MutateConfig       ConfigChange        is logged; the function is skipped
//	Registrar.Compact            TransformContext    fails the compaction
//
// Hooks at a point of a turn return directives. All hooks of a point run before the first directive is executed. One
// directive that the point does not allow, or more than one record can store, makes the whole list an error.
//
//	directive                    before turn  model call  checkpoint  after turn  before call  after call
//	Abort                        yes          yes         yes         no          this call    this call
//	Enqueue                      yes          no          yes         yes         no           next checkpoint
//	CreateSession, Emit, Trace   yes          yes         yes         yes         yes          yes
//	Contribute, SystemPrompt     no           yes         no          no          no           no
//	SwitchFrame                  no           yes         no          no          no           no
//	ReplaceArgs, Ask, AskWithin  no           no          no          no          yes          no
//	JudgePlaces                  no           no          no          no          yes          no
//	ShortCircuit                 no           no          no          no          yes          replaces the result
//
// What hooks before a model call put into the prompt stays until the turn ends: contributions until the same plugin
// contributes again in the turn, and the last [SystemPrompt]. The hooks run before [Protocol.BeforeModelCall], once for all
// attempts and fallbacks of the call. An abort wins over a switch of the frame.
//
// What runs is what the rules judged. All hooks before a call see the model's own arguments, and the last ReplaceArgs
// wins. Then the hooks of [Registrar.AuthorizeToolCall] see the arguments that won, wherever their plugin is in the
// stack. They abort the call or ask for an approval, which shows the same arguments, and nothing replaces these
// afterwards. The same holds for calls inside of calls, of code and in the background. A plugin that refuses calls in
// BeforeToolCall judges the model's arguments only. A path can lead elsewhere by the time that the call runs: rules about paths
// record where they lead, with [JudgePlaces], and the tool works there or not at all.
//
// # What runs again after a crash
//
// The plugins of a session run on the node that works on it, and this node can change. The directives of one point are
// one effect. Once the effect is in the history, no takeover and no replay runs its hooks again. Before that, another
// node may run them again. Sessions created by directives, and direct completions, have ids derived from the effect, so
// a repetition does not double them.
//
// A plugin's state ([Stateful], [State]) is saved in the commit of the change that it belongs to. The save is a
// compare-and-set on the state's revision. If two nodes change the state concurrently, the first commit wins, and the
// other node restores the winner's state.
//
// The lifecycle event [TurnPersisted] arrives at least once for a recorded end of a turn:
//
//	turn ends ----commit----> turn.announced ----hooks return, commit----> turn.told
//	                              |   ^
//	                              +---+  a worker dies, or its calls are cut off: the next worker calls the hooks again
//
// [SessionConfigChanged] likewise, for a change that a client or host requests: the change itself is announced, and session.told completes
// it. A worker sends one of these events of a session after the other, in the order of the history; no turn waits for it. A
// plugin must accept an event twice, with a state that moved on.
// An error or a timeout is logged and not repeated. The event does not arrive:
//
//   - if no node can build the session's plugins within the time that nodes wait for one that can
//   - where its hooks kill one worker after the other; the node's log says so
//   - for a turn that failed or was diverted, or that ended before any worker processed it
//   - for a configuration that the operator's locks changed as a turn started
//
// # Tool sources
//
// A tool source is a set of tools under a name that a plugin registers with [Registrar.Source]. The history records
// which sources a session has (event tool.sources_applied), so every node that takes the session over offers the same.
// Operations on the sources of a session, in Go and over HTTP:
//
//	add       ToolStateHost.AddToolSource      PUT tools/sources/NAME. A tool name in use refuses it
//	replace   ToolStateHost.AddToolSource      the same for a source that the session has: it keeps its position
//	refresh   ToolStateHost.RefreshCatalog     POST tools/refresh: every node queries all sources again
//	remove    ToolStateHost.RemoveToolSource   DELETE tools/sources/NAME. Calls no plugin, so it also removes missing sources
//	list      ToolStateHost.ToolSources        GET tools/sources: sources of the session, and sources of the queried node
//
// Each change is one commit with the resulting tools, in a new generation. The next recorded model call uses it; running
// calls continue. A source that comes back gets the availability levels that a host set for its tools before. A node
// without a source of the session leaves the session's turns to other nodes, as with any plugin that it cannot build.
// If no node has the source, the turns end as plugin_build. Forks, branches, and children that inherit plugin states
// start with the sources. The session's access restricts their tools.
//
// # This package
//
// It imports events, events/eventjson, projector, session/api and session/schema: plugins read a session through the
// fold's own view. It is pure with one exception: each hook runs in a goroutine of its own, so that a panic or a hang is
// contained. A hook that ignores its cancelled context keeps its goroutine. The package has no logger or network. It
// reads no clock; timeouts of hooks are contexts.
//
// It has more than 3 000 lines because declarations and stack share the unexported registrations of [Registrar]. Two
// packages would export these to every author, and authors would import two packages for one plugin.
//
// REFERENCE.md maps the interfaces of the Rust host that this package follows.
package plugin
