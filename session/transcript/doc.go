// Package transcript writes conversations for people to read: the nodes of a
// path as plain text, with colour where a terminal shows it. It imports events
// and projector only and keeps nothing but where in the text it is.
//
// What is shortened always says so, and by how much. Control characters in
// what models and tools wrote are shown, never sent to the terminal.
package transcript
