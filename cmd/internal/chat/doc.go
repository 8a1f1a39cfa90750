// Package chat is a conversation with a session in a terminal or a pipe.
//
// [View] is its pure core: it turns observations of a session into lines of text. A command's response shows nothing.
// Prompts, replies and answers come from the session's history alone, so every chat on a session shows the same.
//
//	typed ──Parse──► Action ──Talk.Do──► session ──Observe──► View.Seen ──► lines
//
// [Screen] shows the lines in a terminal, and [Pipe] writes them to files.
//
// [transcript.Visible] escapes every line before it leaves the core. Text of models, tools and users is indented. Text
// of the chat itself begins at the margin, so a reply cannot imitate a question of the chat.
package chat
