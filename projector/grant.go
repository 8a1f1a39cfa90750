package projector

import (
	"cmp"
	"slices"

	"github.com/lash-go/lash/events"
)

// Grant has the rights of a caller in a session of another owner.
type Grant struct {
	To     string                `msgpack:"t"`
	Rights []events.SessionRight `msgpack:"r"` // at least one
}

// Granted returns the rights that a caller has by a grant. Without a grant it returns nil.
func (s *State) Granted(to string) []events.SessionRight {
	if i, found := s.grantIndex(to); found {
		return s.Grants[i].Rights
	}
	return nil
}

func (s *State) grantIndex(to string) (at int, found bool) {
	return slices.BinarySearchFunc(s.Grants, to, func(g Grant, to string) int { return cmp.Compare(g.To, to) })
}

// applyGranted makes a new list, because clones share the old one.
func (s *State) applyGranted(p *events.SessionGranted) {
	at, found := s.grantIndex(p.To)
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
