package plugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Overlay adds tools and contributions to a session's own. The history records the overlay.
// The handlers of its tools exist in this process only. On another node, and in a later process, a tool is offered if a
// plugin of the session reserves a tool of the same source and name ([Registrar.Reserve]), and left out if none does.
type Overlay struct {
	Tools         []*Tools // for the same name the first wins, and it wins over the session's own
	Contributions []events.Contribution
	WithoutBase   bool // the session's own tools are not offered
}

// IsZero reports whether the overlay changes nothing.
func (o Overlay) IsZero() bool {
	return len(o.Tools) == 0 && len(o.Contributions) == 0 && !o.WithoutBase
}

// Check refuses an overlay that is invalid or that the history cannot record. Errors: [ErrRegistration],
// [*events.FieldError].
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

// MaxOverlayBytes limits the encoded size of a recorded overlay, in bytes: names, descriptions and schemas of its
// tools, and its contributions.
const MaxOverlayBytes = 128 << 10

// Recorded is the event that records the overlay.
func (o Overlay) Recorded() events.SessionOverlaid {
	byName := o.byName()
	fact := events.SessionOverlaid{Contributions: o.Contributions, WithoutBase: o.WithoutBase}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fact.Tools = append(fact.Tools, byName[name].entry)
	}
	return fact
}

func (o Overlay) byName() map[string]*BoundTool {
	byName := make(map[string]*BoundTool)
	for i := len(o.Tools) - 1; i >= 0; i-- {
		maps.Copy(byName, o.Tools[i].byName)
	}
	return byName
}

// same reports whether two overlays have the same tool sets and equal contributions.
func (o Overlay) same(p Overlay) bool {
	return o.WithoutBase == p.WithoutBase && slices.Equal(o.Tools, p.Tools) &&
		slices.EqualFunc(o.Contributions, p.Contributions, SameContribution)
}

// SameContribution reports whether two contributions are equal.
func SameContribution(a, b events.Contribution) bool {
	return a.Slot == b.Slot && a.Title == b.Title && a.Priority == b.Priority && a.Minimum == b.Minimum &&
		a.Content == b.Content && slices.Equal(a.Tools, b.Tools)
}

// overlay is the current overlay of a stack.
type overlay struct {
	Overlay
	seq      events.Seq // sequence of the record that it comes from; 0 without a record
	revision uint64
}

// toolID identifies a reserved tool.
type toolID struct{ source, name string }

// Reserve registers handlers for tools of overlays. A session offers such a tool only while an overlay, set on any
// node, has a tool of the same source and name.
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

// Reserved are the tools that an overlay names, of those that the session's plugins reserve. Errors: an [*events.FieldError] for one
// that they do not, and those of [Builder.BuildStack].
func (b *Builder) Reserved(in BuildContext, list []api.OverlayTool) (*Tools, error) {
	s, err := b.registered(in)
	if err != nil {
		return nil, err
	}
	set := NewTools()
	for i, t := range list {
		tool := s.c.reserved[toolID{t.Source, t.Name}]
		if tool == nil {
			err = fmt.Errorf("no plugin of this node reserves tool %.100q of source %.100q", t.Name, t.Source)
		} else {
			err = set.put(tool)
		}
		if err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("overlay.tools[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return set, nil
}

// AddOverlayHandlers makes the handlers of overlays available to the stack. Earlier overlays of the list take
// precedence.
func (s *Stack) AddOverlayHandlers(list ...Overlay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(list) {
		s.addHandlersLocked(o)
	}
	if len(list) > 0 && SameOverlay(s.overlay.Recorded(), list[0].Recorded()) {
		s.setOverlayLocked(list[0]) // the same tools with other handlers
	}
}

// maxHandlerOverlays is the number of overlays whose handlers a stack keeps: the effective one, and one that a hook
// sets and whose commit may fail.
const maxHandlerOverlays = 2

func (s *Stack) addHandlersLocked(o Overlay) {
	s.handlers = PrependOverlay(s.handlers, o)
}

// PrependOverlay puts an overlay in front of those whose handlers are kept.
func PrependOverlay(list []Overlay, o Overlay) []Overlay {
	if len(o.Tools) == 0 || len(list) > 0 && list[0].same(o) {
		return list
	}
	list = append([]Overlay{o}, list...)
	return list[:min(len(list), maxHandlerOverlays)]
}

func (s *Stack) setOverlayLocked(o Overlay) {
	if s.overlay.same(o) {
		return
	}
	s.overlay.Overlay = Overlay{Tools: slices.Clone(o.Tools), Contributions: slices.Clone(o.Contributions), WithoutBase: o.WithoutBase}
	s.overlay.revision++
	s.catalogs.clear()
}

// FollowOverlay sets the stack's overlay to that of the history. An overlay of an older sequence than the current one
// is ignored, unless the current one is undone: it was folded before its commit, and the commit failed.
func (s *Stack) FollowOverlay(now projector.Overlay, undone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Seq == s.overlay.seq || now.Seq < s.overlay.seq && !undone {
		return
	}
	s.overlay.seq = now.Seq
	if SameOverlay(s.overlay.Recorded(), now.SessionOverlaid) {
		return
	}
	for _, o := range s.handlers {
		if SameOverlay(o.Recorded(), now.SessionOverlaid) {
			s.setOverlayLocked(o)
			return
		}
	}
	o := Overlay{Contributions: now.Contributions, WithoutBase: now.WithoutBase}
	if len(now.Tools) > 0 {
		set := NewTools()
		for i := range now.Tools {
			_ = set.put(s.handlerLocked(&now.Tools[i])) // names are unique
		}
		o.Tools = []*Tools{set}
	}
	s.setOverlayLocked(o)
}

// handlerLocked is a recorded tool with the handler that runs it in this process.
func (s *Stack) handlerLocked(entry *events.ToolEntry) *BoundTool {
	var tool *BoundTool
	for i := 0; i < len(s.handlers) && tool == nil; i++ {
		if own := s.handlers[i].byName()[entry.Name]; own != nil && own.Source == entry.Source {
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
	bound.entry.ShareContract(&tool.entry)
	return &bound
}

// absentTool is a tool without a handler in this process, which is left out: it hides the session's own tool of its name.
func absentTool(entry *events.ToolEntry) *BoundTool {
	return &BoundTool{Tool: Tool{Name: entry.Name, Source: entry.Source}}
}

// leaveOut removes the tools that only another process can run, and returns them.
func leaveOut(offered map[string]*BoundTool) (list []api.LeftOutTool) {
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if tool := offered[name]; tool.Handler == nil {
			delete(offered, name)
			list = append(list, api.LeftOutTool{
				Source: tool.Source, Name: name, Reason: "it was laid over this session's tools by another process, and no plugin of this node reserves it",
			})
		}
	}
	return list
}

// SameOverlay reports whether two records of overlays are equal.
func SameOverlay(a, b events.SessionOverlaid) bool {
	return a.WithoutBase == b.WithoutBase && slices.EqualFunc(a.Contributions, b.Contributions, SameContribution) &&
		slices.EqualFunc(a.Tools, b.Tools, events.SameOffer)
}
