package projector

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Rule names a rule of histories that a [Verifier] checks.
type Rule string

// Rules that a [Verifier] checks.
const (
	RuleSequence Rule = "sequence"  // commits of one session follow each other without gaps
	RuleFold     Rule = "fold"      // every commit can be folded
	RuleCommitID Rule = "commit_id" // every commit has a unique ULID, so event ids are unique too
	RulePrompt   Rule = "prompt"    // a reply's prompt can be rebuilt from the history and equals the recorded one
	RuleState    Rule = "state"     // the invariants of [State.Check]
)

// Violation is one violated rule of a history.
type Violation struct {
	Seq     events.Seq
	Event   int // index in the commit; -1 for the commit or the state
	Check   Rule
	Problem string
}

// Verifier folds a history and checks it. It is not safe for concurrent use.
type Verifier struct {
	s          *State
	broken     bool // a commit could not be folded, so the fold stopped
	commits    map[events.CommitID]events.Seq
	prompts    *Prompts
	checker    checker
	violations []Violation // violations of the current commit
}

// NewVerifier starts before the first commit of session.
func NewVerifier(session events.SessionID) *Verifier { return verifierOf(New(session)) }

// NewUnprovenVerifier is NewVerifier with a state of [NewUnproven], for a verification that compares no snapshot.
func NewUnprovenVerifier(session events.SessionID) *Verifier { return verifierOf(NewUnproven(session)) }

func verifierOf(s *State) *Verifier {
	return &Verifier{s: s, commits: make(map[events.CommitID]events.Seq), prompts: NewPrompts(s)}
}

// State is the fold so far. The caller must not change it.
func (v *Verifier) State() *State { return v.s }

// Apply folds the next commit and returns its violations. After a commit that cannot be folded it checks ids only.
func (v *Verifier) Apply(e events.Entry) []Violation {
	v.violations = nil
	v.checkID(e)
	if v.broken {
		return v.violations
	}
	if e.Seq == v.s.Seq+1 && e.Commit.Session == v.s.Session {
		v.prompts.Each(v.s, e, func(s *State, index int, ref *events.PromptRef) { v.checkPrompt(s, e.Seq, index, ref) })
	}
	if err := v.s.Apply(e); err != nil {
		v.broken = true
		check := RuleFold
		if errors.Is(err, ErrOutOfOrder) {
			check = RuleSequence
		}
		v.report(e.Seq, -1, check, err.Error())
	}
	v.prompts.Record(v.s)
	return v.violations
}

// Check checks the invariants of the state so far. Of nodes and finished turns it checks those since the last call.
func (v *Verifier) Check() []Violation { return v.check(&v.checker) }

// CheckWhole is Check from the first node on. Its cost grows with the state.
func (v *Verifier) CheckWhole() []Violation { return v.check(&checker{}) }

func (v *Verifier) check(c *checker) []Violation {
	v.violations = nil
	if err := c.check(v.s); err != nil {
		v.report(v.s.Seq, -1, RuleState, err.Error())
	}
	return v.violations
}

func (v *Verifier) report(seq events.Seq, event int, check Rule, problem string) {
	v.violations = append(v.violations, Violation{Seq: seq, Event: event, Check: check, Problem: problem})
}

func (v *Verifier) checkID(e events.Entry) {
	id := e.Commit.ID
	if first, twice := v.commits[id]; twice {
		v.report(e.Seq, -1, RuleCommitID, fmt.Sprintf("commit id %s stands at sequence %d already", id, first))
		return
	}
	v.commits[id] = e.Seq
	if !isULID(string(id)) {
		v.report(e.Seq, -1, RuleCommitID, fmt.Sprintf("commit id %q is not a ULID", id))
	}
}

// isULID reports whether id is 26 characters of Crockford's base 32 that fit 128 bits.
func isULID(id string) bool {
	if len(id) != 26 || id[0] > '7' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		upper := 'A' <= c && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U'
		if !upper && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func (v *Verifier) checkPrompt(s *State, seq events.Seq, event int, ref *events.PromptRef) {
	digest, err := v.prompts.digest(s, ref)
	switch {
	case err != nil:
		v.report(seq, event, RulePrompt, "the recorded prompt cannot be rebuilt: "+err.Error())
	case digest != ref.Digest:
		v.report(seq, event, RulePrompt, fmt.Sprintf("the recorded prompt has digest %s, the history gives %s", ref.Digest, digest))
	}
}

// findFrame finds a frame of an [events.PromptRef]; empty is the initial frame.
func (s *State) findFrame(id events.FrameID) (Frame, bool) {
	if id == "" && len(s.Frames) <= 1 {
		return s.Frame(), true
	}
	for _, f := range s.Frames {
		if f.ID == id || id == "" {
			return f, true
		}
	}
	return Frame{}, false
}

// chainAt is the hash chain along the path to a leaf, which must exist; empty is before the first node. At the
// state's own leaf it costs only the new nodes.
func (s *State) chainAt(leaf events.NodeID) (string, error) {
	if leaf == s.Leaf {
		path, err := s.Path()
		if err != nil {
			return "", err
		}
		return s.body.chainDigest(path), nil
	}
	path, err := s.PathTo(leaf)
	if err != nil {
		return "", err
	}
	if len(path) == 0 && leaf != "" {
		return "", fmt.Errorf("there is no node %s", leaf)
	}
	return (&stateBody{}).chainDigest(path), nil
}
