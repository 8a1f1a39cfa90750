// Package mcp is the client of servers of the Model Context Protocol, whose tools sessions call. A [Server] is a child process or an HTTP
// connection of the process that has it; [Servers] are those of a node, and one plugin with the tools of all.
//
//	servers, err := mcp.Parse(file, os.Getenv, os.ReadFile)
//	node, err := mcp.New(mcp.Config{Servers: servers, Bus: b})
//	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{node}})
//	err = node.Start(ctx)
//	defer node.Stop(ctx)
//
// # What becomes what
//
//	tool X of server S             tool S__X; a name with other characters, or a long one, ends with a hash
//	readOnlyHint, idempotentHint   effects none and idempotent; without one a call runs at most once. They are the
//	                               server's claim, which the file tightens: [Server.Effects]
//	resources, prompts             the tools S__list_resources, S__read_resource, S__list_prompts, S__get_prompt
//	text, links, structured        the text of the result. A structured result is its JSON, unless the texts say the same
//	pictures, audio, other bytes   attachments; a part that cannot be read is a text that says so
//	isError, an error of JSON-RPC  a failure that the model reads
//	progress                       output of the call, of the stream progress
//	elicitation                    an approval: a refusal declines, the reason of a grant has the content
//	a page to open before a call   an approval: the call is sent again after a grant
//	instructions of the server     part of the prompt, with its name, where its tools are in every session
//	a changed list of tools        sessions have it from their next turn on
//
// A server cannot ask for completions or roots. A question that it sends as a request names no call: people of a session are asked where
// all calls that run are of that session, in the call that started last. The server gets an error, and the output of the calls says why,
// where calls of several sessions run, or none, and after a call of another session that ended without an answer: the server may still work
// on that call. After such a question the server starts again once no call runs. No session gets a question of another one. An answer that
// does not fit the question's schema is asked for again, three times in all; what it leaves out has the schema's default.
//
// # Nodes
//
// Nodes announce their servers that run, and ask each other for lists of tools that they do not know: sessions of all nodes have the tools
// of all servers. A call runs on the node of its turn if the server runs there, else as a task on a node with the tool role that has it.
// Where none has, it fails.
//
// # The life of a server
//
//	fault                               what the source does
//	the server does not start, or ends  starts it again after a wait that doubles; a command at most six times in ten minutes
//	a call waits for one over HTTP      tries it each second
//	it ends with a call                 the call is lost if it must not run twice; otherwise it runs again, in the next
//	                                    run of the server, at most three times in all
//	the node ends with a call           the next node of the turn does the same
//	it refuses a call without a run     starts a session, with its references read again; the call runs again once
//	it prints what is no message        logs the line, and skips it
//	it sends a broken message           ends it, and starts it again
//	it asks without end                 asks four questions at once, and ten times by results of one call
//	it does not read answers            drops its requests beyond 64 without an answer
//	a call takes too long               cancels it after [Server.Timeout], without the time in which people think
//	a schema that cannot be checked     offers the tool, and the server judges the arguments
//	a tool that a session cannot have   leaves it out, and says why: [Servers.LeftOut]
//	it sends without end                reads at a pace. A message has at most 16 MiB, decompressed
//	it does not read its input          ends it after 10 s, and starts it again
//	it leaves requests over HTTP open   waits 10 s for those that are no calls, 32 at once
//	its answer over HTTP is lost        the call is lost if it must not run twice; other calls go on
//	the process dies                    the process group of a server on stdin and stdout is killed
package mcp
