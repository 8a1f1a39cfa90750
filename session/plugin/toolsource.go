package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// SourceFunc returns the current tools of a source; nil means none. It runs for every build of a catalogue and must
// not block. A source that reads its tools from elsewhere returns the last tools that it read, and reads again after
// a refresh. It should return the same handlers for the same tools.
type SourceFunc func(ctx context.Context) (*Tools, error)

// Source registers a tool source. A session has its tools only after the source is added to it under this name.
// The history records the sources of a session, so every node offers the same tools.
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

// checkSources refuses a source whose name is the source of a permanent tool, because a tool is identified by its
// source and name.
func (c *contributions) checkSources() error {
	for _, t := range c.tools.entries {
		if s, taken := c.sources[t.Source]; taken {
			return fmt.Errorf("%w: tool %s has the source %s, which plugin %s registers to be added", ErrRegistration, t.Name, t.Source, s.Plugin)
		}
	}
	return nil
}

// Sources lists the names of the tool sources that plugins register for a session, sorted.
func (b *Builder) Sources(in BuildContext) ([]string, error) {
	s, err := b.registered(in)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.c.sources)), nil
}

// ToolNames lists the tools that plugins register for a session, and those that they reserve for overlays, sorted. The
// tools of sources are not in it: they may change at any time.
func (b *Builder) ToolNames(in BuildContext) ([]string, error) {
	s, err := b.registered(in)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(s.c.tools.byName))
	for id := range s.c.reserved {
		names = append(names, id.name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// FollowSources sets the stack's tool sources to those of the history. If this node's plugins do not register one of
// them, the error is [ErrNoSource] and nothing changes.
func (s *Stack) FollowSources(names []string) error {
	for _, name := range names {
		if _, known := s.c.sources[name]; !known {
			return &events.FieldError{Field: "tool_sources", Reason: fmt.Sprintf("%q is registered by no plugin of this node", name), Err: ErrNoSource}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = slices.Clone(names)
	return nil
}

// CatalogWith is the catalogue with one more source, without adding the source to the stack. A tool name in use is an
// [*events.FieldError]. Each source is asked once, with ctx, for at most the time of a hook. The result is kept as the
// catalogue of the generation after the state's. Other errors: those of [Stack.Catalog], and [ErrNoSource] for an unregistered source.
func (s *Stack) CatalogWith(ctx context.Context, state *projector.Catalog, source string) (*CatalogEntry, error) {
	if _, known := s.c.sources[source]; !known {
		return nil, fmt.Errorf("tool source %q: %w", source, ErrNoSource)
	}
	fingerprint := s.Fingerprint()
	s.mu.Lock()
	over, names, cleared := s.overlay, append(slices.Clone(s.sources), source), s.catalogs.cleared
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

// baseTools are the tools of plugins and sources. If two have the same name, the first wins.
func (s *Stack) baseTools(sources []*Tools) map[string]*BoundTool {
	if len(sources) == 0 {
		return s.c.tools.byName
	}
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

// sourceTools queries sources, one after the other.
func (s *Stack) sourceTools(ctx context.Context, sources []string) ([]*Tools, error) {
	list := make([]*Tools, len(sources))
	for i, source := range sources {
		var err error
		if list[i], err = s.askSource(ctx, source); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// askSource queries a source and sets its name in its tools.
func (s *Stack) askSource(ctx context.Context, source string) (*Tools, error) {
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
