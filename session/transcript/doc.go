// Package transcript writes conversations for people to read: the nodes of a
// path as plain text, with colour where a terminal shows it. It imports events
// and projector only and keeps nothing but where in the text it is.
//
// What is shortened always says so, and by how much. What a terminal would act on
// is shown: [Visible] says how, in every text that people read.
package transcript
