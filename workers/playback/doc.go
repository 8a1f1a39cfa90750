// Package playback runs recorded conversations through the whole runtime: a
// host client drives each as its users did, a scripted model and scripted
// tools answer as recorded, and the history that results is compared with the
// recording. It imports everything below workers.
//
// Recordings are as untidy as life. What a recording shows becomes:
//
//	user message                      a turn
//	several in a row                  the earlier ones injected, the last one the turn
//	after tool results, mid-turn      injected at the checkpoint
//	reply without a user message      a turn that continues from the leaf
//	aborted reply                     the model hangs, the client cancels; what was streamed is kept
//	failed reply                      the provider ends the reply with an error
//	call that was never answered      cancelled: by its tool when the conversation goes on, else by the client
//	result without a call, or late    an appended node
//	end in the middle                 the client cancels
//	model or thinking change          a configuration change
//	shell command, unknown entry      an appended plugin or protocol node
//	compaction                        a new frame: the summary, then what was kept
//	entry whose parent is not the one before    the client branches there first
package playback
