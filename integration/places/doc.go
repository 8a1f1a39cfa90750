// Package places adds an operation, an event kind, a hook, a tool, a provider and a command to the module, and counts
// the places that each of them touches. It also finds exported names that no program uses, and methods of REFERENCE.md whose test
// passes without them, and bounds the words of the documents.
package places
