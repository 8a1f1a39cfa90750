// Package playback runs recorded conversations through the whole runtime. A host client makes the requests of the
// users, a scripted model and scripted tools return the recorded answers, and [Compare] compares the resulting
// history with the recording.
//
// An entry of a recording becomes:
//
//	user message                      a turn
//	several in a row                  inputs of the last one's turn
//	after tool results, in a turn     an input at the checkpoint
//	reply without a user message      a turn that continues from the leaf
//	aborted reply                     the model hangs, the client cancels; the streamed part stays
//	failed reply                      the provider ends the reply with an error
//	call without a result             cancelled: by its tool if the conversation continues, else by the client
//	result without a call, or late    an appended node
//	end in the middle of a turn       the client cancels
//	model or thinking change          a configuration change
//	shell command, unknown entry      an appended plugin or protocol node
//	compaction                        a new frame: the summary, then the entries that stay
//	parent is not the previous entry  the client branches there first
package playback
