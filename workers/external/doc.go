// Package external has the plugins of a node that run as programs of their own: which instances live, what they offer,
// and the calls of their tools. Package session/plugin/remote is the other side, session/plugin/wire the protocol
// between them.
//
//	plugins, err := external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "weather"}}})
//	err = plugins.Start(ctx)
//	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: plugins.Factories()})
//	node, err := workers.NewNode(workers.Config{Bus: b, Plugins: builder})
//
// All nodes of a fleet need the same names, in the end: the requests of a plugin go to the nodes that have its name.
//
// # What is known, and from where
//
//	the manifests of a plugin       bucket lash-plugins: the current one, the last 8 before it, and the names of the last
//	                                64 replaced versions, written by the node that answers a registration
//	the instances of a plugin       their signs of life: each node receives all, and stores none
//	the manifest of a turn          the plugin's state in the session's history, saved in the commit that starts a turn
//	the instance of a session       likewise, for plugins of scope session
//	the instance of an open call    the session's history, where the call must not run twice: its id, and the term of its program
//
// A turn has the tools of the manifest that was known when it began, to its end and on every node; the next turn has
// those of the current one. The tools of a plugin without a living instance stay in the catalogue; their calls fail as
// unavailable.
//
// # Versions
//
//	none ──register──► current ──another version registers──► replaced ──a rollback registers──► current
//
// An instance that registers a replaced version without asking for a rollback is refused: an old instance that returns
// never takes over. Instances of a replaced version finish their calls and get no new ones. A running turn with an
// earlier manifest calls instances of the current one, where they declare the tool in the same way, else its call fails
// as unavailable.
//
// If the bucket is lost, a node that knows its contents writes them again, and merges them with what was registered
// meanwhile. Where no node knows them, each instance registers again: the last one to do so is current.
//
// # Which instance gets a call
//
// Of the instances that live, take calls and have the known manifest, the one that the call's id ranks highest
// (rendezvous hashing). So a node that repeats a call asks the same instance, which joins the two, or still has the
// outcome. Where an instance is gone before it receives a repeatable call, the next one gets that at once. A repeatable call
// that three instances received and died with fails. A call that must not run twice goes to the instance that the
// history names, and to no other.
//
// A call that asks people is kept by its instance, while the turn waits without a node. The history has the question and
// its answer. The node that reads the answer sends the call again, to the instance that the history names, or that the
// call's id ranks highest; a cancel of the turn goes there, too.
//
// Inside another call, and in the background, no event names an instance. A call that must not run twice then goes to
// one instance, and to no other, as long as its node lives:
//
//	the answer is lost        the same instance gets the call again
//	the instance is gone      the result is lost
//	the node dies             the outer call's rule decides: where it runs again, a nested call that began is lost; a
//	                          call in the background ends with its task, as abandoned
//
// A plugin of scope session has one instance for all calls of a session, which the session's id ranks. It stays until
// it is gone, drains, or ends the session after a hint that the session is idle. The next instance gets the next epoch,
// and accepts the session, before it gets calls. The hint comes from the node that had the last call, and does not
// regard people that watch the session. Where that node is gone, the instance decides after twice the time.
//
// # Hooks
//
// A session has the hooks and the texts for prompts of the same manifest as its tools. A hook is called on the instance
// that the session's id ranks highest, and on one other instance where that is gone. The session of a plugin of scope
// session moves with it. What fails:
//
//	the instance is gone before the hook             the next one gets it at once
//	the instance dies during the hook                another one gets it after the lease, in the rest of the hook's time
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
//	a hook fails five times           the event is skipped, and the log has an error
//	the stream is lost                its events are lost; it is created again
//
// # Limits
//
// A node limits in time what it takes of the instances of a plugin, and of one call: package wire has the figures. What
// a call sends above its own limits does not count for its plugin's. All messages of a plugin arrive over a connection of its
// own, which a server closes where more arrives than the node reads: its calls are sent again, and nothing else is cut off.
//
// A call in the background cannot record a placement: where the instance of its session is gone, it fails as unavailable
// until the session's next call or turn. A turn whose manifest was replaced more than 8 versions ago continues with the current
// one on a node that takes the turn over. The last 64 replaced versions are known: an older one registers as a new one.
//
// # Packages
//
//	external             calls, hooks, observed events and placements; a session's plugin needs all four
//	internal/registry    manifests, registrations, terms, and which instances live
//	internal/callback    what calls request of the API
//	internal/result      what instances answer, checked
//	internal/setting     what the operator says
//	internal/rate        limits in time
//	stdio                programs that speak over stdin and stdout
//
// Imports point down. The registry calls this package by one interface, [registry.Node]: to compile tools, to deliver events, to call
// hooks at custom points and to close questions.
package external
