package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// SourceFunc gives the tools that a source has now; nil is none. It is asked
// whenever a catalogue is built and must not block: a source that reads its
// tools from elsewhere answers with those that it read last, and has them
// looked at again by a refresh. The same tools are best given as the same handlers.
type SourceFunc func(ctx context.Context) (*Tools, error)

// Source registers a tool source: tools that only those sessions have to which
// it was added under this name, until it is removed there. The history says which
// sessions these are, so that every node offers the same.
func (r *Registrar) Source(name string, tools SourceFunc) {
	if err := events.CheckToken("source", name); err != nil {
		r.errs = append(r.errs, err)
	}
	if old, taken := r.c.sources[name]; taken {
		r.fail("tool source %s is registered by %s and by %s", name, old.Plugin, r.plugin)
		return
	}
	r.c.sources[name] = owned(r, tools)
}

// checkSources refuses a source under whose name tools stand that are always there:
// the tools of a source are known by that name.
func (c *contributions) checkSources() error {
	for _, t := range c.tools.entries {
		if s, taken := c.sources[t.Source]; taken {
			return fmt.Errorf("%w: tool %s has the source %s, which plugin %s registers to be added", ErrRegistration, t.Name, t.Source, s.Plugin)
		}
	}
	return nil
}

// Sources are the names of the tool sources that plugins register for a session, sorted.
func (h *Host) Sources(in BuildContext) ([]string, error) {
	s, err := h.registered(in)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.c.sources)), nil
}

// FollowSources brings the stack to the sources of the history. One that no
// plugin registers here is [ErrNoSource], and changes nothing.
func (s *Session) FollowSources(names []string) error {
	for _, name := range names {
		if _, known := s.c.sources[name]; !known {
			return &events.FieldError{Field: "tool_sources", Reason: fmt.Sprintf("%q is registered by no plugin of this node", name), Err: ErrNoSource}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added = slices.Clone(names)
	return nil
}

// CatalogWith is the catalogue as it would be with another source, which the
// stack does not have. A tool of the source whose name is taken is an [*events.FieldError].
// Each source is asked once, with ctx, for as long as a hook may take: where the source is added then, the answer is the
// catalogue at the generation after the state's.
// Errors otherwise: those of [Session.Catalog], and [ErrNoSource] where no plugin registers the source.
func (s *Session) CatalogWith(ctx context.Context, state *projector.Catalog, source string) (*CatalogEntry, error) {
	if _, known := s.c.sources[source]; !known {
		return nil, fmt.Errorf("tool source %q: %w", source, ErrNoSource)
	}
	fingerprint := s.Fingerprint()
	s.mu.Lock()
	over, names, cleared := s.overlay, append(slices.Clone(s.added), source), s.catalogs.cleared
	key := s.keyLocked(state.Generation+1, names, fingerprint)
	s.mu.Unlock()
	sets, err := s.sourceTools(ctx, names)
	if err != nil {
		return nil, err
	}
	last := len(sets) - 1
	own := s.baseTools(sets[:last])
	for _, name := range sets[last].names() {
		if other := own[name]; other != nil {
			reason := fmt.Sprintf("%q has the tool %q, as %q has", source, name, other.Source)
			return nil, &events.FieldError{Field: "source", Reason: reason, Err: events.ErrInvalid}
		}
	}
	entry, err := s.buildCatalog(ctx, over, s.baseTools(sets), state)
	if err == nil {
		s.keepCatalog(key, entry, cleared)
	}
	return entry, err
}

// baseTools are the plugins' tools and those of sources; of one name the first counts.
func (s *Session) baseTools(sources []*Tools) map[string]*Registered {
	all := maps.Clone(s.c.tools.byName)
	for _, set := range sources {
		for name, tool := range set.byName {
			if _, taken := all[name]; !taken {
				all[name] = tool
			}
		}
	}
	return all
}

// sourceTools asks sources, one after the other.
func (s *Session) sourceTools(ctx context.Context, sources []string) ([]*Tools, error) {
	list := make([]*Tools, len(sources))
	for i, source := range sources {
		var err error
		if list[i], err = s.askSource(ctx, source); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// askSource asks a source, and puts its name to its tools.
func (s *Session) askSource(ctx context.Context, source string) (*Tools, error) {
	fn := s.c.sources[source]
	point := "tool source " + source
	set, err := contain(ctx, s, fn.Plugin, point, fn.Value)
	if err != nil {
		return nil, hookError(fn.Plugin, point, err)
	}
	named := NewTools()
	if set == nil {
		return named, nil
	}
	for _, name := range set.names() {
		tool := *set.byName[name]
		tool.Source, tool.entry.Source = source, source
		if err := named.put(&tool); err != nil {
			return nil, hookError(fn.Plugin, point, err)
		}
	}
	return named, nil
}
