// Package mcpapi serves sessions to other agents by the Model Context Protocol. Its tools perform requests of the HTTP API
// with the credentials of the agent, so that rights, limits and recorded names are those of that door:
//
//	create_session, list_sessions    POST and GET /v1/sessions
//	read_session                     GET a session, with its usage by source
//	run_turn, wait_turn              POST and GET a turn, with a wait; its events are progress
//	cancel_turn                      POST a turn's cancel
//	list_approvals, answer_approval  GET and POST approvals
//	read_history                     GET the conversation, of which it returns a part: the last 50 messages, or those asked for
//	search_history                   GET the conversation, of which it returns the messages that have a text; without a session GET /v1/search
//
// Resources: lash://sessions/SESSION is the conversation of a session.
//
// [New] is for a process that another agent starts; [Handler] is for the HTTP server of the API, where one call waits 45 s
// at most.
//
// A turn outlives the connection: run_turn and wait_turn return its id after their wait, and wait_turn continues. A
// repeat of run_turn with the same turn joins it.
package mcpapi
