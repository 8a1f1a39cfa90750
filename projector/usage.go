package projector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

func (s *State) applyDirect(id events.TurnID, p *events.ModelCompleted) {
	if t := s.running(id); t != nil {
		if t.DirectReply(p.Key) != nil {
			return
		}
		t.Direct = append(t.Direct, DirectReply{*p})
	}
	s.charge(p.Source, p.Model, p.Usage)
}

// DirectReply finds the turn's direct completion of a key. Without one it returns nil.
func (t *Turn) DirectReply(key string) *DirectReply {
	return findFirst(t.Direct, func(x *DirectReply) bool { return x.Key == key })
}

func (s *State) applyCharged(p *events.UsageCharged) {
	i, found := slices.BinarySearchFunc(s.Children, p.Child, func(c ChildUsage, id events.SessionID) int {
		return strings.Compare(string(c.Session), string(id))
	})
	switch {
	case found && s.Children[i].At >= p.At:
		return
	case !found:
		s.Children = slices.Insert(slices.Clone(s.Children), i, ChildUsage{})
	}
	s.Children[i] = ChildUsage{Session: p.Child, Source: p.Source, At: p.At, Entries: p.Entries}
}

// Report is the usage of a session: its own calls and those of its children.
type Report struct {
	Total    events.Usage
	BySource map[string]events.Usage
	ByModel  map[string]events.Usage
	Entries  []LedgerEntry // sorted by source, model
}

// Usage sums the ledger.
func (s *State) Usage() Report {
	all := State{}
	for _, e := range s.Ledger {
		all.charge(e.Source, e.Model, e.Usage)
	}
	for _, c := range s.Children {
		for _, e := range c.Entries {
			all.charge(c.Source, e.Model, e.Usage)
		}
	}
	r := Report{BySource: make(map[string]events.Usage), ByModel: make(map[string]events.Usage), Entries: all.Ledger}
	for _, e := range r.Entries {
		r.Total = r.Total.Add(e.Usage)
		r.BySource[e.Source] = r.BySource[e.Source].Add(e.Usage)
		r.ByModel[e.Model] = r.ByModel[e.Model].Add(e.Usage)
	}
	return r
}

// UsageSince is the difference of two ledgers. Ledgers only grow, so a decreased counter is an error.
func UsageSince(before, after []LedgerEntry) ([]LedgerEntry, error) {
	sum := State{}
	for _, e := range after {
		sum.charge(e.Source, e.Model, e.Usage)
	}
	for _, e := range before {
		i := slices.IndexFunc(sum.Ledger, func(a LedgerEntry) bool { return a.Source == e.Source && a.Model == e.Model })
		if i < 0 {
			return nil, fmt.Errorf("ledger of %s, %s is gone", e.Source, e.Model)
		}
		left := &sum.Ledger[i].Usage
		*left = left.Sub(e.Usage)
		if left.Input < 0 || left.Output < 0 || left.CacheRead < 0 || left.CacheWrite < 0 || left.Reasoning < 0 {
			return nil, fmt.Errorf("ledger of %s, %s decreased", e.Source, e.Model)
		}
	}
	return slices.DeleteFunc(sum.Ledger, func(e LedgerEntry) bool { return e.Usage.IsZero() }), nil
}
