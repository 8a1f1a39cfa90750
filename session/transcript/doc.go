// Package transcript renders conversations for people: the nodes of a path as plain text, with colour where the
// terminal supports it. It imports events and projector only, and its only state is its position in the text.
//
// A marker shows each shortened text, with the omitted length. Control characters become visible escapes, see
// [Visible].
package transcript
