package projector

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// Prompts rebuilds the prompts of recorded model calls while a history is folded. [Prompts.Record] must see the state
// after each commit. It is not safe for concurrent use.
type Prompts struct {
	configs  map[events.Seq]events.Config // by the sequence that set them
	catalogs map[int64]Catalog            // by generation
}

// NewPrompts starts at the state before the first commit.
func NewPrompts(s *State) *Prompts {
	p := &Prompts{configs: make(map[events.Seq]events.Config), catalogs: make(map[int64]Catalog)}
	p.Record(s)
	return p
}

// Record saves the configuration and the catalogue, which the prompts of later replies may refer to.
func (p *Prompts) Record(s *State) {
	p.configs[s.ConfigSeq] = s.Config
	p.catalogs[s.Catalog.Generation] = s.Catalog
}

// Each calls visit for each event of the next commit that refers to a prompt, with the state at that event. Events
// before it may be part of its prompt, so they are folded into a copy of s.
func (p *Prompts) Each(s *State, e events.Entry, visit func(s *State, index int, ref *events.PromptRef)) {
	list := e.Commit.Events
	last := len(list) - 1
	for last >= 0 && promptOf(list[last].Payload) == nil {
		last--
	}
	for i := range list[:last+1] {
		if ref := promptOf(list[i].Payload); ref != nil {
			visit(s, i, ref)
		}
		if i == last {
			break
		}
		if i == 0 {
			_, _ = s.chainAt(s.Leaf) // caches the links before the copy
			s = s.Clone()
		}
		s.ApplyUncommitted(&list[i], e.Commit.At)
		p.Record(s)
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

// promptSources are the parts of a prompt that a reference names. The state's own may have changed since.
type promptSources struct {
	config  events.Config
	catalog Catalog
	frame   Frame
}

func (p *Prompts) sources(s *State, ref *events.PromptRef) (from promptSources, err error) {
	var ok bool
	if from.config, ok = p.configs[ref.Config]; !ok {
		return from, fmt.Errorf("no configuration was set at sequence %d", ref.Config)
	}
	if from.catalog, ok = p.catalogs[ref.Catalog]; !ok {
		return from, fmt.Errorf("there is no tool catalogue of generation %d", ref.Catalog)
	}
	if from.frame, ok = s.findFrame(ref.Frame); !ok {
		return from, fmt.Errorf("there is no frame %s", ref.Frame)
	}
	from.config = s.generated(from.config)
	return from, nil
}

// digest computes the digest of the prompt that ref describes. View and contributions are those of the running turn.
func (p *Prompts) digest(s *State, ref *events.PromptRef) (string, error) {
	from, err := p.sources(s, ref)
	if err != nil {
		return "", err
	}
	chain, err := s.chainAt(ref.Leaf)
	if err != nil {
		return "", err
	}
	chain, _ = s.bound(chain, &from.catalog, &from.config)
	return promptDigest(from.config, from.catalog.Digest, from.frame, chain), nil
}

// Of rebuilds the prompt that ref describes, as it was sent. Its Ref has the digest of the rebuilt prompt, which in a
// history without violations equals that of ref.
func (p *Prompts) Of(s *State, ref *events.PromptRef) (Prompt, error) {
	from, err := p.sources(s, ref)
	if err != nil {
		return Prompt{}, err
	}
	path, err := s.PathTo(ref.Leaf)
	if err != nil {
		return Prompt{}, err
	}
	out := Prompt{Ref: *ref, Config: from.config, Tools: from.catalog.callable()}
	nodes := s.visible(path, from.frame)
	if t := s.Turn(); t != nil && t.Viewed {
		nodes = applyView(nodes, t)
	}
	out.Messages = closeCalls(messages(nodes))
	if ref.Room > 0 {
		out.Messages, _ = Prune(out.Messages, ref.Room)
	}
	out.Spilled = spilled(out.Messages)
	_, out.System = s.bound("", &from.catalog, &from.config)
	out.Ref.Digest, err = p.digest(s, ref)
	return out, err
}
