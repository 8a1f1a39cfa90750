package projector

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// Rule names a rule of histories that a [Verifier] checks.
type Rule string

// Rules that a [Verifier] checks.
const (
	RuleSequence Rule = "sequence"  // commits of one session follow each other without gaps
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
	broken     bool // the sequence has a gap, so the fold stopped
	commits    map[events.CommitID]events.Seq
	configs    map[events.Seq]events.Config // by the sequence that set them
	catalogs   map[int64]Catalog            // by generation
	violations []Violation                  // violations of the current commit
}

// NewVerifier starts before the first commit of session.
func NewVerifier(session events.SessionID) *Verifier {
	v := &Verifier{
		s: New(session), commits: make(map[events.CommitID]events.Seq),
		configs: make(map[events.Seq]events.Config), catalogs: make(map[int64]Catalog),
	}
	v.record(v.s)
	return v
}

// State is the fold so far. The caller must not change it.
func (v *Verifier) State() *State { return v.s }

// Apply folds the next commit and returns its violations. After a gap in the sequence it checks ids only.
func (v *Verifier) Apply(e events.Entry) []Violation {
	v.violations = nil
	v.checkID(e)
	if v.broken {
		return v.violations
	}
	if e.Seq == v.s.Seq+1 && e.Commit.Session == v.s.Session {
		v.checkPrompts(e)
	}
	if err := v.s.Apply(e); err != nil {
		v.broken = true
		v.report(e.Seq, -1, RuleSequence, err.Error())
	}
	v.record(v.s)
	return v.violations
}

// Check checks the invariants of the state so far. Its cost grows with the state.
func (v *Verifier) Check() []Violation {
	v.violations = nil
	if err := v.s.Check(); err != nil {
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

// record saves the configuration and the catalogue, which the prompts of later replies may refer to.
func (v *Verifier) record(s *State) {
	v.configs[s.ConfigSeq] = s.Config
	v.catalogs[s.Catalog.Generation] = s.Catalog
}

// checkPrompts rebuilds the prompt of every reply in the commit. Events before a reply may be part of its prompt, so
// they are folded into a copy first.
func (v *Verifier) checkPrompts(e events.Entry) {
	list := e.Commit.Events
	last := len(list) - 1
	for last >= 0 && promptOf(list[last].Payload) == nil {
		last--
	}
	s := v.s
	for i := range list[:last+1] {
		if ref := promptOf(list[i].Payload); ref != nil {
			v.checkPrompt(s, e.Seq, i, ref)
		}
		if i == last {
			break
		}
		if i == 0 {
			_, _ = s.chainAt(s.Leaf) // caches the links before the copy
			s = s.Clone()
		}
		s.Ahead(&list[i], e.Commit.At)
		v.record(s)
	}
}

// promptOf is the prompt of an event, or nil.
func promptOf(p events.Payload) *events.PromptRef {
	switch p := p.(type) {
	case *events.ModelReplied:
		return &p.Prompt
	case *events.ModelFailed:
		return &p.Prompt
	case *events.ModelInterrupted:
		return &p.Prompt
	}
	return nil
}

func (v *Verifier) checkPrompt(s *State, seq events.Seq, event int, ref *events.PromptRef) {
	digest, err := v.digest(s, ref)
	switch {
	case err != nil:
		v.report(seq, event, RulePrompt, "the recorded prompt cannot be rebuilt: "+err.Error())
	case digest != ref.Digest:
		v.report(seq, event, RulePrompt, fmt.Sprintf("the recorded prompt has digest %s, the history gives %s", ref.Digest, digest))
	}
}

// digest computes the digest of the prompt that ref describes. The state's own leaf, frame, catalogue and
// configuration may have changed since. View and contributions are those of the running turn.
func (v *Verifier) digest(s *State, ref *events.PromptRef) (string, error) {
	config, ok := v.configs[ref.Config]
	if !ok {
		return "", fmt.Errorf("no configuration was set at sequence %d", ref.Config)
	}
	catalog, ok := v.catalogs[ref.Catalog]
	if !ok {
		return "", fmt.Errorf("there is no tool catalogue of generation %d", ref.Catalog)
	}
	frame, ok := s.findFrame(ref.Frame)
	if !ok {
		return "", fmt.Errorf("there is no frame %s", ref.Frame)
	}
	chain, err := s.chainAt(ref.Leaf)
	if err != nil {
		return "", err
	}
	config = s.generated(config)
	chain, _ = s.bound(chain, &catalog, &config)
	return promptDigest(config, catalog.Digest, frame, chain), nil
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
