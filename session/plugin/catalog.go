package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// CatalogFunc changes which tools a session offers. It must not block. A call from within it for the session's tools
// cannot include its own result: after a wait that call gets the catalogue of the history.
type CatalogFunc func(in CatalogContext) (CatalogContribution, error)

// CatalogContext is the input of a [CatalogFunc].
type CatalogContext struct {
	Session    events.SessionID
	Tools      []events.ToolEntry
	Access     events.ToolAccess
	Subagent   events.Subagent
	Extensions Extensions
}

// CatalogContribution is the result of a [CatalogFunc]. Unknown tools are ignored.
type CatalogContribution struct {
	Remove []string
	Levels map[string]events.Availability // later contributors win
}

// CatalogKey identifies a catalogue by all its inputs.
type CatalogKey struct {
	IncludeBase bool
	Overlay     uint64 // the overlay's revision
	Sources     string // names of the session's tool sources
	Generation  int64  // of the session's tool state
	Plugins     uint64 // fingerprint of the plugins
}

// CatalogEntry is a catalogue with the values derived from it.
type CatalogEntry struct {
	Tools    []events.ToolEntry // tools that the stack offers, sorted by name
	Preamble Preamble
	LeftOut  []api.LeftOutTool // by an overlay; with the reason
	offered  map[string]*BoundTool
	list     func() []json.RawMessage
}

// List is the catalogue as JSON objects, built once. The caller must not change it.
func (c *CatalogEntry) List() []json.RawMessage { return c.list() }

// Find returns the offered tool of a name.
func (c *CatalogEntry) Find(name string) (*BoundTool, bool) {
	r, ok := c.offered[name]
	return r, ok
}

func (s *Stack) keyLocked(generation int64, sources []string, fingerprint uint64) CatalogKey {
	return CatalogKey{
		IncludeBase: !s.overlay.WithoutBase, Overlay: s.overlay.revision, Sources: strings.Join(sources, " "), Generation: generation, Plugins: fingerprint,
	}
}

// maxCatalogs is the number of catalogues that a stack keeps. Each change of the tool state or of a plugin's state makes
// another.
const maxCatalogs = 8

// catalogs are the catalogues that a stack has built last.
type catalogs struct {
	entries  map[CatalogKey]*CatalogEntry
	order    []CatalogKey  // of entries, the oldest first
	building chan struct{} // closed at the end of the running build; nil without one
	cleared  uint64        // number of clears: a build that started before a clear is not cached
}

func (c *catalogs) clear() {
	clear(c.entries)
	c.order = nil
	c.cleared++
}

// keep adds a catalogue, and drops the oldest above the limit.
func (c *catalogs) keep(key CatalogKey, entry *CatalogEntry) {
	if c.entries[key] == nil {
		c.order = append(c.order, key)
	}
	c.entries[key] = entry
	if len(c.order) > maxCatalogs {
		delete(c.entries, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
}

// catalogTimeout limits the wait for another build, which may be a build by the caller itself.
const catalogTimeout = 5 * time.Second

// Catalog returns the tools that the stack offers with the session's tool state. It is built once for each
// [CatalogKey] of the last few; errors are not cached. Plugins run without locks. Errors: [ErrBuilding] if another build
// does not end in time.
func (s *Stack) Catalog(state *projector.Catalog) (*CatalogEntry, error) {
	var patience <-chan struct{}
	for {
		entry, other, build := s.catalog(state.Generation)
		switch {
		case entry != nil:
			return entry, nil
		case build != nil:
			return build(state)
		}
		if patience == nil {
			within, done := context.WithTimeout(context.Background(), min(catalogTimeout, s.builder.timeout/2))
			defer done()
			patience = within.Done()
		}
		select {
		case <-other:
		case <-patience:
			return nil, fmt.Errorf("tool catalog of session %s: %w", s.id, ErrBuilding)
		}
	}
}

// catalog returns one of three: the catalogue, a running build to wait for, or the function that builds it.
func (s *Stack) catalog(generation int64) (*CatalogEntry, chan struct{}, func(*projector.Catalog) (*CatalogEntry, error)) {
	fingerprint := s.Fingerprint()
	s.mu.Lock()
	defer s.mu.Unlock()
	over, sources, cleared := s.overlay, s.sources, s.catalogs.cleared
	key := s.keyLocked(generation, sources, fingerprint)
	if entry := s.catalogs.entries[key]; entry != nil || s.catalogs.building != nil {
		return entry, s.catalogs.building, nil
	}
	ended := make(chan struct{})
	s.catalogs.building = ended
	return nil, nil, func(state *projector.Catalog) (entry *CatalogEntry, err error) {
		defer func() {
			if entry != nil {
				s.keepCatalog(key, entry, cleared)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.catalogs.building = nil
			close(ended)
		}()
		ctx := context.Background() // what is built is not one caller's: the time of hooks bounds it
		var base map[string]*BoundTool
		if !over.WithoutBase { // the sources are not asked for tools that are left out
			sets, err := s.sourceTools(ctx, sources)
			if err != nil {
				return nil, err
			}
			base = s.baseTools(sets)
		}
		return s.buildCatalog(ctx, over, base, state)
	}
}

// keepCatalog caches a built catalogue, unless the cache was cleared since the build began.
func (s *Stack) keepCatalog(key CatalogKey, entry *CatalogEntry, cleared uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.catalogs.cleared == cleared {
		s.catalogs.keep(key, entry)
	}
}

// buildCatalog makes a catalogue of the tools of plugins and sources, which an overlay may leave out. The catalogue
// keeps base, which must not change afterwards.
func (s *Stack) buildCatalog(ctx context.Context, over overlay, base map[string]*BoundTool, state *projector.Catalog) (*CatalogEntry, error) {
	if over.WithoutBase {
		base = nil
	}
	entry := &CatalogEntry{offered: base}
	var levels map[string]events.Availability
	changed := s.changes(over)
	if changed {
		entry.offered = s.accessible(base)
		var err error
		if levels, err = s.contributeTo(ctx, entry.offered); err != nil {
			return nil, err
		}
		maps.Copy(entry.offered, s.accessible(over.byName()))
		entry.LeftOut = leaveOut(entry.offered)
		for _, l := range entry.LeftOut {
			s.builder.warn(l.Source, "catalog", fmt.Errorf("tool %s of session %s is left out: %s", l.Name, s.id, l.Reason))
		}
		for _, name := range s.build.Access.Hidden {
			delete(entry.offered, name)
		}
	}
	if !changed && len(base) == len(s.c.tools.byName) { // sources only add tools
		entry.Tools = s.c.tools.entries
	} else {
		entry.Tools = s.builder.lists.of(entry.offered, levels)
	}
	tools := withOverrides(entry.Tools, state)
	preamble, err := s.Preamble(tools, nil)
	if err != nil {
		return nil, err
	}
	entry.Preamble = preamble
	entry.list = sync.OnceValue(func() []json.RawMessage { return ListTools(tools) })
	return entry, nil
}

// changes reports whether the catalogue differs from the tools of plugins and sources.
func (s *Stack) changes(over overlay) bool {
	a := s.build.Access
	return len(a.Tools)+len(a.Hidden)+len(s.c.catalog)+len(over.Tools) > 0
}

// accessible copies those of the tools that the session may have. A tool of an overlay is no exception: the creator of a child may name one.
func (s *Stack) accessible(base map[string]*BoundTool) map[string]*BoundTool {
	only := s.build.Access.Tools
	offered := make(map[string]*BoundTool, len(base))
	for name, tool := range base {
		if len(only) == 0 || slices.Contains(only, name) {
			offered[name] = tool
		}
	}
	return offered
}

// contributeTo runs the catalogue contributors in order.
func (s *Stack) contributeTo(ctx context.Context, offered map[string]*BoundTool) (map[string]events.Availability, error) {
	levels := make(map[string]events.Availability)
	for _, h := range s.c.catalog {
		in := CatalogContext{
			Session: s.id, Tools: entriesOf(offered, levels), Access: s.build.Access, Subagent: s.build.Subagent, Extensions: s.build.Extensions,
		}
		c, err := contain(ctx, s, h.Plugin, "catalog", func(context.Context) (CatalogContribution, error) { return h.Value(in) })
		if err != nil {
			return nil, hookError(h.Plugin, "catalog", err)
		}
		for _, name := range c.Remove {
			delete(offered, name)
		}
		for name, level := range c.Levels {
			if err := checkEntry(events.ToolEntry{Name: name, Availability: level}); err != nil {
				return nil, hookError(h.Plugin, "catalog", err)
			}
			if _, known := offered[name]; known {
				levels[name] = level
			}
		}
	}
	return levels, nil
}

// withOverrides are the tools with the availability that hosts set: the list itself where hosts have set none.
func withOverrides(tools []events.ToolEntry, state *projector.Catalog) []events.ToolEntry {
	list := tools
	for i := range state.Tools {
		old := &state.Tools[i]
		if old.Override == "" {
			continue
		}
		at, found := slices.BinarySearchFunc(list, old.Name, func(e events.ToolEntry, name string) int { return strings.Compare(e.Name, name) })
		if !found {
			continue
		}
		if len(list) > 0 && &list[0] == &tools[0] {
			list = slices.Clone(tools)
		}
		list[at].Override = old.Override
	}
	return list
}

// CatalogItem is a tool in a listed catalogue.
type CatalogItem struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Source       string          `json:"source,omitempty"`
	Availability string          `json:"availability"`
	Callable     bool            `json:"callable"`
	Showcased    bool            `json:"showcased"`
	Searchable   bool            `json:"searchable"`
	Contract     json.RawMessage `json:"contract,omitempty"`

	Namespace string            `json:"namespace,omitempty"`
	Aliases   []string          `json:"aliases,omitempty"`
	Output    json.RawMessage   `json:"output_schema,omitempty"`
	Examples  []json.RawMessage `json:"examples,omitempty"`
}

// ListTools lists the tools with availability "searchable" or higher, one JSON object each.
func ListTools(tools []events.ToolEntry) []json.RawMessage {
	list := make([]json.RawMessage, 0, len(tools))
	for i := range tools {
		t, contract, level := &tools[i], tools[i].Look(), tools[i].Effective()
		if level.Rank() < events.AvailSearchable.Rank() {
			continue
		}
		data, err := json.Marshal(CatalogItem{
			Name: t.Name, Description: t.Description, Source: t.Source, Availability: string(events.Overridden(level)),
			Callable: t.Callable(), Showcased: level == events.AvailShowcased, Searchable: true, Contract: contract.Schema,
			Namespace: t.Namespace, Aliases: t.Aliases, Output: contract.Output, Examples: eventjson.Raws(contract.Examples),
		})
		if err == nil { // a schema that is no JSON is refused by AddTool
			list = append(list, data)
		}
	}
	return list
}
