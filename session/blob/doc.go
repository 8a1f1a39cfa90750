// Package blob moves large bodies of events out of the log into the object store, and back: [Spill] replaces a body by a
// reference before an append, and [Fill] and its variants replace references by bodies for the code that needs the text.
package blob
