// Package projector owns the fold: the state of a session as a function of
// its history, and the views, prompts and snapshots made from it. It imports
// events only, is pure, and gives the same bytes on every machine.
//
// A [State] is folded from commits by [State.Apply], or restored from a
// snapshot and folded on. Both ways agree at every sequence, byte for byte.
//
// # Segments
//
// A session's state grows with its history, but opening a session must not.
// So the state has a small head and a body: nodes leave the head in segments of
// [SegmentNodes], finished turns, settled inputs and requests with a key in
// books, at points that depend on the history alone. Neither ever changes; its
// reference is the digest of its content. A page names [PageSegments] segments.
// A snapshot is the head with the references, so that it costs the same after
// ten events as after a million, and what was stored once is not stored again.
// Apply never looks into old segments; what does (paths, ids, prompts) needs
// them attached and answers [ErrPartial] until then.
//
// # Copies
//
// A session that begins as a copy of another names a [Base] in its first
// commit: a small head of its own format, which outlives versions of the fold,
// over the segments and pages that the other one's snapshots have stored. The
// first commit is folded once the state was given the base.
package projector
