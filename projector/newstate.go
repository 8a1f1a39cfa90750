package projector

import (
	"github.com/lash-go/lash/events"
)

// New is the state before the first event.
func New(session events.SessionID) *State {
	return &State{Head: Head{Session: session}}
}

// NewUnproven is [New] for readers. Apply does not hash the commits, which is a third of a fold, so that such a state
// signs no head and has no snapshot.
func NewUnproven(session events.SessionID) *State {
	s := New(session)
	s.unproven = true
	return s
}

// Reset makes s the state before the first event. It stays one of [New] or of [NewUnproven].
func (s *State) Reset() {
	*s = State{Head: Head{Session: s.Session}, unproven: s.unproven, resets: s.resets + 1}
}

// Resets is the number of calls of [State.Reset]. It shows that the history of a state was replaced.
func (s *State) Resets() int { return s.resets }

// LastCommit is the id of the commit at Seq. It is empty where the state does not know it, as after [Restore].
func (s *State) LastCommit() events.CommitID { return s.last }

// SetLastCommit names the commit at Seq, for a state from a snapshot.
func (s *State) SetLastCommit(id events.CommitID) { s.last = id }

// Incarnation names the log's stream that the state is of. Empty: not known.
func (s *State) Incarnation() string { return s.incarnation }

// SetIncarnation sets it, for the package that reads the log.
func (s *State) SetIncarnation(name string) { s.incarnation = name }

// HasSnapshot reports whether [State.Snapshot] can encode the state: it is of the log, and folded with the hashes of its
// commits, unlike one of [NewUnproven].
func (s *State) HasSnapshot() bool { return !s.ahead && !s.unproven }
