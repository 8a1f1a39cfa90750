// Package recording reads recorded conversations of real agents and turns them into a neutral, ordered script.
//
// The content of a line decides its format, not the name of the file: see [Format]. A file may mix them. A line that says nothing of
// its format belongs to the conversation before it, and one before any conversation is an error.
//
// Arguments of calls keep their bytes, an entry of pi of an unknown kind stays unchanged, and every line is in a
// conversation, counted in its Lost, or in a [*LineError]; a part that is not what its type says is kept as it is. A file without a
// message is an error. The package is pure: the same bytes give the same conversations. It imports
// events only.
package recording
