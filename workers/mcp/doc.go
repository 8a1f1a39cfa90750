// Package mcp makes servers of the Model Context Protocol plugins, whose tools sessions call. A [Source] is the client of
// one server and an instance of the plugin with the server's name: nodes call it as they call any program that is a
// plugin, so that the catalogue of a turn, cancels, limits and what happens after a death are those of package external.
//
//	servers, err := mcp.Parse(file, os.Getenv, os.ReadFile)
//	source, err := mcp.Start(ctx, mcp.Config{Server: servers[0], Conn: conn})
//	defer source.Stop(ctx)
//
// # What becomes what
//
//	tool X of server S             tool S__X; a name with other characters, or a long one, ends with a hash
//	readOnlyHint, idempotentHint   effects none and idempotent; without one a call runs at most once. They are the
//	                               server's claim, which the file tightens: [Server.Effects]
//	resources, prompts             the tools S__list_resources, S__read_resource, S__list_prompts, S__get_prompt
//	text, links, structured        the text of the result. A structured result is its JSON, unless a text is the same JSON
//	pictures, audio, other bytes   attachments
//	isError, an error of JSON-RPC  a failure that the model reads
//	progress                       output of the call, of the stream progress
//	elicitation                    an approval: a refusal declines, the reason of a grant has the content
//	a page to open before a call   an approval: the call is sent again after a grant
//	a changed list of tools        a new version of the plugin: sessions have it from their next turn on
//
// A server cannot ask for completions or roots. A question that it asks by the result of a call belongs to that call. One
// that it sends as a request names no call: people of a session are asked where all calls that run are of that session,
// in the call that started last. The server gets an error, and the output of the calls says why, where calls of several
// sessions run, or none, and after a call of another session that ended without an answer: the server may still work on
// that call. After such a question the server starts again once no call runs, so that its next one is asked. No session
// gets a question of another one. An answer that does not fit the question's schema is asked for again, three times in
// all. A question that the server cancels, or whose call ends, is withdrawn: the history has a refusal in the name of the
// plugin, and the turn waits for people no longer.
//
// # The life of a server
//
//	fault                               what the source does
//	the server does not start, or ends  starts it again after a wait that doubles from 100 ms to 30 s
//	it ends with a call                 the call is lost if it must not run twice; otherwise it runs again, in the next
//	                                    run of the server, at most three times in all
//	it ends while people think          the same; its questions are withdrawn, and the next run asks its own
//	it sends what the protocol lacks    answers with an error; a call fails if that was its result
//	it sends what is no message         ends it, and starts it again
//	it asks without end                 asks four questions at once, and ten times by results of one call
//	it does not read answers            drops its requests beyond 64 without an answer
//	its start takes too long            ends it after [Server.StartTimeout], and starts it again
//	a call takes too long               cancels it after [Server.Timeout]
//	a tool that a session cannot have   leaves it out, and logs why: a schema that is refused, the 129th tool
//	it changes its list all the time    reads the list once a second
//	it sends without end                after 4 000 lines and 64 MiB at once reads 2 000 lines and 64 MiB a second while a call
//	                                    runs, or for 10 s of a list, and 100 lines and 4 MiB else. A message has at most 16 MiB, decompressed
//	it does not read its input          ends it after 10 s, and starts it again
//	it ends each stream at once         opens a stream once a second
//	it leaves requests over HTTP open   waits 10 s for those that are no calls, 32 at once
//	it has lost its session of HTTP     starts a session, and sends the call again: it has not run
//	its answer over HTTP is lost        the call is lost if it must not run twice; other calls go on
//	the source's process dies           the process group of a server on stdin and stdout is killed
package mcp
