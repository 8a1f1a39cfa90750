package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Overlay lays tools and contributions over a session's own. The history has
// what it says, and every node offers that. The handlers of its tools are of
// this process: on another node, and in a later process, a tool runs where a
// plugin of the session reserves one of its source and name ([Registrar.Reserve]).
type Overlay struct {
	Tools         []*Tools // of one name the first wins, before the session's own
	Contributions []events.Contribution
	WithoutBase   bool // only these tools
}

// IsZero reports whether it lays nothing over anything.
func (o Overlay) IsZero() bool {
	return len(o.Tools) == 0 && len(o.Contributions) == 0 && !o.WithoutBase
}

// Check refuses what cannot be composed, or no history could hold. Errors:
// [ErrRegistration], and an [*events.FieldError].
func (o Overlay) Check() error {
	for i, set := range o.Tools {
		if set == nil {
			return fmt.Errorf("%w: overlay: tools[%d] is nil", ErrRegistration, i)
		}
	}
	fact := o.Recorded()
	if err := fact.Validate(); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	data, err := events.EncodePayload(&fact)
	if err == nil && len(data) > MaxOverlayBytes {
		err = &events.FieldError{Field: "overlay", Reason: fmt.Sprintf("takes %d bytes, limit is %d", len(data), MaxOverlayBytes), Err: events.ErrTooLarge}
	}
	return err
}

// MaxOverlayBytes is how large an overlay may be as it is recorded, in bytes:
// the names, descriptions and schemas of its tools, and its contributions.
const MaxOverlayBytes = 128 << 10

// Recorded is what the history has of the overlay.
func (o Overlay) Recorded() events.SessionOverlaid {
	byName := o.byName()
	fact := events.SessionOverlaid{Contributions: o.Contributions, WithoutBase: o.WithoutBase}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fact.Tools = append(fact.Tools, byName[name].entry)
	}
	return fact
}

func (o Overlay) byName() map[string]*Registered {
	byName := make(map[string]*Registered)
	for i := len(o.Tools) - 1; i >= 0; i-- {
		maps.Copy(byName, o.Tools[i].byName)
	}
	return byName
}

// Same reports whether two overlays are the same: the same sets of tools, and contributions that say the same.
func (o Overlay) Same(p Overlay) bool {
	return o.WithoutBase == p.WithoutBase && slices.Equal(o.Tools, p.Tools) &&
		slices.EqualFunc(o.Contributions, p.Contributions, SameContribution)
}

// SameContribution reports whether two contributions say the same.
func SameContribution(a, b events.Contribution) bool {
	return a.Slot == b.Slot && a.Title == b.Title && a.Priority == b.Priority && a.Minimum == b.Minimum &&
		a.Content == b.Content && slices.Equal(a.Tools, b.Tools)
}

// overlay is what lies over a stack's tools.
type overlay struct {
	Overlay
	seq      events.Seq // of the record that it was brought to; 0: of none
	revision uint64
}

// toolID tells tools that plugins reserve apart.
type toolID struct{ source, name string }

// Reserve keeps tools for overlays: they are offered only where an overlay, on
// whichever node it was laid, has a tool of the same source and name.
func (r *Registrar) Reserve(set *Tools) error {
	for name, tool := range set.byName {
		id := toolID{tool.Source, name}
		if _, taken := r.c.reserved[id]; taken {
			return fmt.Errorf("tool %s of source %q is reserved twice", name, tool.Source)
		}
		r.c.reserved[id] = tool
	}
	return nil
}

// SetOverlay lays tools and contributions over the stack's own in this process,
// until the history says otherwise. The same again changes nothing and keeps
// the cache; so does one that fails [Overlay.Check].
func (s *Session) SetOverlay(o Overlay) error {
	if err := o.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knowLocked(o)
	s.layLocked(o)
	return nil
}

// KnowOverlays gives the stack handlers for tools of overlays, those that count first in front.
func (s *Session) KnowOverlays(list ...Overlay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(list) {
		s.knowLocked(o)
	}
	if len(list) > 0 && SameOverlay(s.overlay.Recorded(), list[0].Recorded()) {
		s.layLocked(list[0]) // the same tools with other handlers
	}
}

// keptOverlays is how many overlays a stack knows handlers of: the one that counts, and
// one that a hook lays whose record may fail.
const keptOverlays = 2

func (s *Session) knowLocked(o Overlay) {
	s.known = KeepOverlay(s.known, o)
}

// KeepOverlay puts an overlay in front of those that handlers are kept of.
func KeepOverlay(list []Overlay, o Overlay) []Overlay {
	if len(o.Tools) == 0 || len(list) > 0 && list[0].Same(o) {
		return list
	}
	list = append([]Overlay{o}, list...)
	return list[:min(len(list), keptOverlays)]
}

func (s *Session) layLocked(o Overlay) {
	if s.overlay.Same(o) {
		return
	}
	s.overlay.Overlay = Overlay{Tools: slices.Clone(o.Tools), Contributions: slices.Clone(o.Contributions), WithoutBase: o.WithoutBase}
	s.overlay.revision++
	s.catalogs.clear()
}

// FollowOverlay brings the stack to the overlay of the history. A look at the
// history that is older than one before changes nothing, unless that one is
// undone: what was folded ahead of the log did not get there.
func (s *Session) FollowOverlay(now projector.Overlay, undone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Seq == s.overlay.seq || now.Seq < s.overlay.seq && !undone {
		return
	}
	s.overlay.seq = now.Seq
	if SameOverlay(s.overlay.Recorded(), now.SessionOverlaid) {
		return
	}
	for _, o := range s.known {
		if SameOverlay(o.Recorded(), now.SessionOverlaid) {
			s.layLocked(o)
			return
		}
	}
	o := Overlay{Contributions: now.Contributions, WithoutBase: now.WithoutBase}
	if len(now.Tools) > 0 {
		set := NewTools()
		for i := range now.Tools {
			_ = set.put(s.handlerLocked(&now.Tools[i])) // no name stands twice
		}
		o.Tools = []*Tools{set}
	}
	s.layLocked(o)
}

// handlerLocked is a recorded tool with what runs it here.
func (s *Session) handlerLocked(entry *events.ToolEntry) *Registered {
	var tool *Registered
	for i := 0; i < len(s.known) && tool == nil; i++ {
		if own := s.known[i].byName()[entry.Name]; own != nil && own.Source == entry.Source {
			tool = own
		}
	}
	if tool == nil {
		tool = s.c.reserved[toolID{entry.Source, entry.Name}]
	}
	if tool == nil {
		tool = absentTool(entry)
	}
	bound := *tool
	bound.entry = *entry
	return &bound
}

// absentTool stands for one that nothing in this process runs.
func absentTool(entry *events.ToolEntry) *Registered {
	name := entry.Name
	tool, _ := register(Tool{Name: name}, func(context.Context, Call, json.RawMessage) (Result, error) { // any object is taken
		return Result{}, &Failure{
			Class: ClassUnavailable, Code: CodeUnavailable,
			Message: fmt.Sprintf("tool %q was laid over this session's tools by a process that is gone, and no plugin of this node reserves it", name),
		}
	})
	return tool
}

// SameOverlay reports whether two records say the same.
func SameOverlay(a, b events.SessionOverlaid) bool {
	return a.WithoutBase == b.WithoutBase && slices.EqualFunc(a.Contributions, b.Contributions, SameContribution) &&
		slices.EqualFunc(a.Tools, b.Tools, events.SameOffer)
}

// Overlay is what lies over the session's own tools.
func (s *Session) Overlay() Overlay {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.overlay.Overlay
	return Overlay{Tools: slices.Clone(o.Tools), Contributions: slices.Clone(o.Contributions), WithoutBase: o.WithoutBase}
}

// OverlayContributions are the overlay's contributions.
func (s *Session) OverlayContributions() []events.Contribution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overlay.Contributions)
}
