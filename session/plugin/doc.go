// Package plugin is what authors of plugins import: tools, hooks, protocols,
// and the capabilities that a host offers them. It owns their declarations,
// the stack that a session's plugins form, and the rules by which a stack is
// asked. It imports events, projector and session/api: what plugins read of a
// session is the fold's own view of it, not a copy with other names.
//
// It is pure but for one thing: a hook runs in a goroutine of its own, so that
// its panic and its silence can be contained. It has no clock, logger or network.
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
// # What is recorded, and what may run again
//
// A session's plugins run on whichever node works on it. What they decide at a
// point of a turn is one effect: it is recorded with what follows from it, and
// neither a takeover nor a replay asks again. Until that is durable it may be
// asked again, on another node; sessions that directives create, and direct
// completions, are named after the effect and therefore not doubled. A
// plugin's state ([Stateful], [State]) is saved in the commit of what changed
// it. It moves by compare-and-set on its revision: of two nodes that change it
// at once the first to record wins, and the other one is brought up to that.
//
// Of a turn's recorded end plugins are told at least once, by [TurnPersisted]: the commit that ends the turn
// has the event turn.announced beside it, and turn.told follows once all of them have returned. A worker that dies
// in between, or whose telling is cut off, leaves the session owing that, and the next worker tells them again,
// of one turn after the other. A plugin has to expect to be told twice, and that the state which it is
// told with has moved on. An error, or silence past the time of hooks, is warned of and not repeated. They
// are not told where no node can build the session's plugins for as long as nodes wait for one that can, nor of a
// turn whose telling kills one worker after the other; the log of a node says so. Of a turn
// that failed, that was diverted, or that ended before any worker saw it, they are not told.
//
// # What is contained
//
// A panic, silence past the time of hooks, and an answer that no history could
// hold are errors of the plugin, in hooks, protocols, drivers and stacks alike.
// An error does what the point's rule says (host specification 4.2) and is
// recorded with the plugin's name; one directive that the point does not allow,
// or more than one record holds, drops the whole list. A hook that ignores its
// context is left behind. Hooks before a call that say too much fail that call
// only: what was said of the others counts.
//
// # Tool sources
//
// A source of the reference's tool registry is a set of tools under a name that a plugin registers
// ([Registrar.Source]): code that nodes have. Which sources a session has is in its
// history (tool.sources_applied), by operations of every door; every node that takes the session over offers the same.
//
//	add       ToolStateHost.AddToolSource      PUT tools/sources/NAME. A name of a tool that is taken refuses it; levels that a
//	                                           host set for its tools before count again
//	replace   ToolStateHost.AddToolSource      of one that the session has: it keeps its place, and is asked anew
//	refresh   ToolStateHost.RefreshCatalog     POST tools/refresh: every node asks all sources anew
//	remove    ToolStateHost.RemoveToolSource   DELETE tools/sources/NAME. No plugin is asked, so a source that is gone can be removed
//	list      ToolStateHost.ToolSources        GET tools/sources: those of the session, and those that the node asked has
//
// Each change is one commit with the tools that follow from it, in a new
// generation. The model is told of it with the next call of it that is recorded; calls of
// tools that run go on. A node that lacks a source of the session leaves its
// turns to others, as with any plugin that cannot be built; where none has it, they end as plugin_build.
// Forks, branches and children that take over plugin states begin with the sources, and access of the session binds their tools.
//
// # The reference interfaces
//
// Every method of the reference interfaces of the session host (000), of
// protocols (001), of the plugin session (002) and of the session (003), and
// where it is here. Names without a package are this one's.
//
//	000 SessionSnapshotHost.snapshot_current                     SnapshotHost.SnapshotCurrent
//	000 SessionSnapshotHost.snapshot_session                     SnapshotHost.SnapshotSession
//	000 ToolCatalogHost.tool_catalog                             CatalogHost.ToolCatalog
//	000 ToolStateHost.tool_state                                 ToolStateHost.ToolState
//	000 ToolStateHost.apply_tool_state                           ToolStateHost.ApplyToolState
//	000 ToolStateHost.set_tools_availability                     ToolStateHost.SetToolsAvailability
//	000 ToolStateHost.set_tool_availability                      ToolStateHost.SetToolAvailability
//	000 SessionLifecycleHost.create_session                      LifecycleHost.CreateSession
//	000 SessionLifecycleHost.take_first_turn_input               LifecycleHost.TakeFirstTurnInput
//	000 SessionLifecycleHost.close_session                       LifecycleHost.CloseSession
//	000 TurnHost.start_turn_stream                               TurnHost.StartTurnStream
//	000 TurnHost.await_turn                                      TurnHost.AwaitTurn
//	000 TurnHost.cancel_turn                                     TurnHost.CancelTurn
//	000 TurnHost.start_turn                                      TurnHost.StartTurn
//	000 TaskHost.inject_turn_input                               TaskHost.InjectTurnInput
//	000 TaskHost.spawn_hidden_task                               TaskHost.SpawnHiddenTask
//	000 TaskHost.await_hidden_tasks                              TaskHost.AwaitHiddenTasks
//	000 TaskHost.spawn_managed_task                              TaskHost.SpawnManagedTask
//	000 TaskHost.cancel_managed_task                             TaskHost.CancelManagedTask
//	000 TaskHost.register_background_task                        TaskHost.RegisterBackgroundTask
//	000 TaskHost.unregister_background_task                      TaskHost.UnregisterBackgroundTask
//	000 TaskHost.complete_background_task                        TaskHost.CompleteBackgroundTask
//	000 TaskHost.transition_background_task_live_state           TaskHost.TransitionBackgroundTask
//	000 TaskHost.list_background_tasks                           TaskHost.ListBackgroundTasks
//	000 TaskHost.cancel_background_task                          TaskHost.CancelBackgroundTask
//	000 TaskHost.cancel_all_background_tasks                     TaskHost.CancelAllBackgroundTasks
//	000 TaskHost.validate_async_handles_visible                  TaskHost.ValidateAsyncHandlesVisible
//	000 TaskHost.transfer_async_handles                          TaskHost.TransferAsyncHandles
//	000 TaskHost.cancel_unreferenced_async_handles               TaskHost.CancelUnreferencedAsyncHandles
//	000 MonitorHost.monitor_snapshot                             MonitorHost.MonitorSnapshot
//	000 MonitorHost.take_monitor_updates                         MonitorHost.TakeMonitorUpdates
//	000 MonitorHost.start_monitor                                MonitorHost.StartMonitor
//	000 MonitorHost.stop_monitor                                 MonitorHost.StopMonitor
//	000 SessionGraphHost.append_session_nodes                    GraphHost.AppendNodes
//	000 DirectCompletionHost.direct_completion                   CompletionHost.Complete
//	000 DirectCompletionHost.direct_llm_completion               CompletionHost.Complete
//	000 TraceHost.emit_trace_event                               TraceHost.EmitTrace
//	000 PromptHookHost                                           PromptHost
//	000 TurnHookHost                                             TurnHookHost
//	000 ToolHookHost                                             ToolHost
//	000 TurnResultHookHost                                       TurnResultHost
//	000 CheckpointHookHost                                       CheckpointHost
//	000 HistoryHost                                              HistoryHost
//	000 PluginActionHost                                         ActionHost
//	000 RuntimeSessionHost                                       RuntimeHost
//	001 ProtocolSessionPlugin.initialize_session                 Protocol.Initialize
//	001 ProtocolSessionPlugin.restore_session                    Protocol.Restore
//	001 ProtocolSessionPlugin.append_session_nodes               Protocol.AppendNodes
//	001 ProtocolSessionPlugin.apply_session_extension            Protocol.ApplyExtension
//	001 ProtocolSessionPlugin.validate_turn_extension            Protocol.ValidateTurn
//	001 ProtocolSessionPlugin.configure_runtime_on_materialize   Protocol.Configure
//	001 ProtocolSessionPlugin.before_llm_call                    Protocol.BeforeModelCall
//	001 ProtocolSessionContext.session_id                        ProtocolSession.Session
//	001 ProtocolBeforeLlmCallContext.direct_llm_completion       ModelCallContext.Host
//	001 ProtocolLlmCallAction.SwitchAgentFrame                   events.FrameSwitch
//	001 ProtocolRuntimeContext.protocol_turn_options             ProtocolRuntime.Options
//	001 ProtocolRuntimeContext.set_protocol_turn_options         ProtocolRuntime.SetOptions
//	001 ProtocolRuntimeContext.set_protocol_turn_options_all_frames ProtocolRuntime.SetOptionsAllFrames
//	001 ProtocolSessionMaterialization.plugin_options            Materialization.Options
//	001 ProtocolSessionMaterialization.is_root_session           Materialization.IsRoot
//	001 CodeExecutorPlugin.execute_code                          CodeExecutor.Execute
//	001 CodeExecutorPlugin.execution_state_dirty                 CodeExecutor.Dirty
//	001 CodeExecutorPlugin.snapshot_execution_state              CodeExecutor.Snapshot
//	001 CodeExecutorPlugin.restore_execution_state               CodeExecutor.Restore
//	001 AssistantProseProjectorPlugin.project_assistant_prose    ProseFunc
//	001 ProtocolDriverPlugin.build_preamble                      Driver.Preamble
//	001 PluginOptions.empty                                      Options
//	001 PluginOptions.typed                                      OptionsOf
//	001 PluginOptions.insert_typed                               Options.Insert
//	001 PluginOptions.decode                                     DecodeOptions
//	002 PluginSession.session_id                                 Session.ID
//	002 PluginSession.tool_access                                Session.Access
//	002 PluginSession.subagent_context                           Session.Subagent
//	002 PluginSession.extensions                                 Session.Extensions
//	002 PluginSession.host                                       Session.Host
//	002 PluginSession.tools                                      Session.Tools
//	002 PluginSession.tool_registry                              Session.Catalog
//	002 PluginSession.protocol_session                           Session.Protocol
//	002 PluginSession.code_executor                              Session.CodeExecutor
//	002 PluginSession.assistant_prose_projector                  Session.ProjectProse
//	002 PluginSession.protocol_driver                            Session.Preamble
//	002 PluginSession.plugin_actions                             Session.Actions
//	002 PluginSession.has_assistant_stream_hooks                 Session.HasStream
//	002 PluginSession.prepare_turn_context                       Session.PrepareContext
//	002 PluginSession.compact_context                            Session.Compact
//	002 PluginSession.collect_prompt_contributions               Session.Contributions
//	002 PluginSession.before_turn                                Session.BeforeTurn
//	002 PluginSession.before_tool_call                           Session.BeforeToolCall
//	002 PluginSession.after_tool_call                            Session.AfterToolCall
//	002 PluginSession.after_turn                                 Session.AfterTurn
//	002 PluginSession.at_checkpoint                              Session.AtCheckpoint
//	002 PluginSession.transform_assistant_stream                 Session.TransformStream
//	002 PluginSession.transform_assistant_response               Session.TransformResponse
//	002 PluginSession.project_tool_result                        Session.ProjectToolResult
//	002 PluginSession.emit_runtime_event                         Session.Tell
//	002 PluginSession.emit_runtime_event_with_phase_probe        HostConfig.Probe
//	002 PluginSession.has_runtime_event_hooks                    Session.HasLifecycle
//	002 PluginSession.mutate_session_config                      Session.MutateConfig
//	002 PluginSession.snapshot                                   Session.Snapshot
//	002 PluginSession.snapshot_is_current                        Session.SnapshotIsCurrent
//	002 PluginSession.snapshot_revision_fingerprint              Session.Fingerprint
//	002 SnapshotReader.read_blob                                 SnapshotReader.Read
//	002 PluginSession.restore                                    Session.Restore
//	002 PluginSession.fork_for_session                           Session.Fork
//	002 PluginSession.fork_for_child_session                     Session.Fork
//	002 PluginSession.fork_for_session_with_tool_catalog         Session.ForkWithCatalog
//	002 PluginSession.invoke_plugin_action                       Session.InvokeAction
//	002 PluginSession.call_plugin_action                         CallAction
//	003 Session.new                                              Host.BuildSession
//	003 Session.session_id                                       Session.ID
//	003 Session.tools                                            Session.Tools
//	003 Session.plugins                                          Session
//	003 Session.set_context_overlay                              session.Host.SetOverlay
//	003 Session.prompt_cache                                     projector.State.Prompt
//	003 Session.context_prompt_contributions                     Session.OverlayContributions
//	003 Session.protocol_extra_prompt_contributions              Session.Contributions
//	003 Session.history_store                                    session.Host.State
//	003 Session.resolved_tool_catalog                            CatalogEntry.Tools
//	003 Session.turn_driver_preamble                             CatalogEntry.Preamble
//	003 Session.shared_tool_catalog                              CatalogEntry.List
//	003 Session.tool_catalog                                     session.Host.ToolCatalog
//	003 Session.tool_catalog_cache_key                           CatalogKey
//	003 Session.code_execution_context                           ExecContext
//	003 Session.set_message_sender                               Session.SetMessageSender
//	003 Session.clear_message_sender                             Session.ClearMessageSender
//	003 Session.invalidate_runtime_caches                        session.Host.InvalidateCaches
//	003 Session.refresh_tool_catalog                             session.Host.RefreshCatalog
//	003 InjectedTurnInput                                        api.InjectRequest
//	003 ExecRequest                                              ExecRequest
//	003 SessionError.CodeExecutionUnavailable                    api.ErrCodeUnavailable
//	003 SessionError.CodeExecutionRuntimeStopped                 api.ErrRuntimeStopped
//	003 SessionError.ProviderMismatch                            api.ErrProviderMismatch
//	003 SessionError.ProviderUnconfigured                        api.ErrProviderUnconfigured
//	003 SessionError.ProviderUnavailable                         api.ErrProviderUnavailable
//	003 SessionError.Protocol                                    api.ErrProtocol
//
// Left out, with the reason:
//
//   - 002 PluginSession.triggers, a catalogue of event types that something raises later, and 003's use of it. An event from outside
//     is a request of a host here: a turn, an injected input, the result of a pending call or of a task. Each of these has
//     an id under which it happens once, and its place in the history. A subscription beside them would be a second way in.
//   - 001 ProtocolBeforeLlmCallContext.process_scope, under which processes are started. Tasks are the only processes here. What a
//     protocol starts with ModelCallContext.Host is named after the effect that started it, so a scope would say nothing more.
package plugin
