package projector

import (
	"cmp"
	"slices"

	"github.com/lash-go/lash/events"
)

// Grant is what a caller may do in a session that is not its own.
type Grant struct {
	To     string                `msgpack:"t"`
	Rights []events.SessionRight `msgpack:"r"` // at least one
}

// Granted is what the session's owner granted to a caller; none where it has no grant.
func (s *State) Granted(to string) []events.SessionRight {
	if i, found := s.grant(to); found {
		return s.Grants[i].Rights
	}
	return nil
}

func (s *State) grant(to string) (at int, found bool) {
	return slices.BinarySearchFunc(s.Grants, to, func(g Grant, to string) int { return cmp.Compare(g.To, to) })
}

// applyGranted makes a new list: clones share the old one.
func (s *State) applyGranted(p *events.SessionGranted) {
	at, found := s.grant(p.To)
	end := at
	if found {
		end++
	}
	list := slices.Clone(s.Grants[:at])
	if len(p.Rights) > 0 {
		list = append(list, Grant{To: p.To, Rights: p.Rights})
	}
	s.Grants = append(list, s.Grants[end:]...)
}
