// Package chat is a conversation with a session in a terminal or a pipe.
//
// [View] is its pure core: what is observed of a session goes in, lines for
// people come out. Nothing is shown because a command returned: the prompts,
// replies and answers that a chat shows are those of the session's history, so
// every chat on a session shows the same.
//
//	typed ──Parse──► Action ──Talk.Do──► session ──Observe──► View.Seen ──► lines
//
// [Screen] shows the lines in a terminal, and [Pipe] where there is none.
//
// Every line is escaped as [transcript.Visible] says before it leaves the core.
// What models, tools and users said is indented; what begins at the margin is
// the chat's own, so that no reply passes for a question of the chat.
package chat
