// Package recording reads recorded conversations of real agents and turns them into a neutral, ordered script.
//
// The content of a line decides its format, not the name of the file: chats in the OpenAI format, one conversation in
// each line, or session files of the pi coding agent, one entry in each line. A file may mix them.
//
// Arguments of calls keep their bytes, an entry of an unknown kind stays unchanged, and every line is in a
// conversation or in a [*LineError]. The package is pure: the same bytes give the same conversations. It imports
// events only.
package recording
