// Package external has the plugins of a node that run as programs of their own: which instances live, what they offer,
// and the calls of their tools. Package session/plugin/remote is the other side, session/plugin/wire the protocol
// between them.
//
//	plugins, err := external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "weather"}}})
//	err = plugins.Start(ctx)
//	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: plugins.Factories()})
//	node, err := workers.NewNode(workers.Config{Bus: b, Plugins: stack})
//
// All nodes of a fleet need the same names. A node answers only the plugins that it has been given.
//
// # What is known, and from where
//
//	the manifest of a plugin        bucket lash-plugins, written by the node that answers a registration
//	the instances of a plugin       their signs of life: each node hears all, and stores none
//	the instance of an open call    the session's history, where the call must not run twice
//
// A session has the tools of the manifest that is known when its plugins are built, between two turns. The tools of a
// plugin without a living instance stay in the catalogue; their calls fail as unavailable.
//
// # Which instance gets a call
//
// Of the instances that live, take calls and have the known manifest, the one that the call's id ranks highest
// (rendezvous hashing). So a node that repeats a call asks the same instance, which joins the two, or still has the
// outcome. A call that must not run twice goes to the instance that the history names, and to no other.
//
// # Hooks
//
// A session has the hooks and the texts for prompts of the same manifest as its tools. A hook is called on the instance
// that the session's id ranks highest, and on one other instance where that is gone. What fails:
//
//	no instance, no answer in time, a wrong answer   what an error of a hook in the node does
//	the same, with fail_open                         the hook is skipped; the history has a trace event "hook_skipped"
//	a late answer                                    has no reader
//	the node dies after the record of the hooks      no node calls them again
//	the node dies before the record                  the next node calls them again, with the same invocation
//
// Events that a plugin observes are stored in the stream PREFIX-plugin-events, which only fleets with such a plugin have:
// for a day, and at most 16 384 for each plugin. One node at a time delivers them, in order:
//
//	no instance lives                 the events wait
//	the instance dies with an event   it comes again, marked as redelivered
//	the node dies with an event       another node delivers it after 2 s, marked as redelivered
//	a hook fails five times           the event is skipped, and the log says so
//	the stream is lost                its events are lost; it is created again
//
// # Limits
//
// A call that must not run twice fails as unavailable where no event tool.called is recorded for it: inside another
// call, and in the background. The last registration of a plugin counts: instances of another version finish their
// calls, and get no new ones.
package external
