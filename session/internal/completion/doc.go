// Package completion has the events of direct completions: what identifies one in a history, and its reply. It also bounds
// the deltas of its stream.
package completion
