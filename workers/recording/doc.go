// Package recording reads recorded conversations of real agents and turns
// them into a neutral, ordered script.
//
// Two formats are told apart by what a line holds, never by a file's name:
// chats in the OpenAI format, one conversation a line, and session files of
// the pi coding agent, one entry a line. A file may mix them.
//
// What is read is what was recorded: arguments of calls keep their bytes, an
// entry of a kind unknown here is kept as it is, and every line ends up in a
// conversation or in a [*LineError]. The package is pure: reading the same
// bytes gives the same conversations. It imports events only.
package recording
