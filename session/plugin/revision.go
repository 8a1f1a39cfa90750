package plugin

import "slices"

// Revised is a factory whose plugins change while the process runs. A session gets plugins of a new revision as soon as
// the factory returns another one for it. While a turn runs the revision must follow from the plugin's saved state, so
// that every node gives the turn the same plugins.
type Revised interface{ Revision(BuildContext) string }

// revisions are those of the factories that change.
func (b *Builder) revisions(in BuildContext) (list []string) {
	for _, f := range b.factories {
		if r, ok := f.(Revised); ok {
			list = append(list, r.Revision(in))
		}
	}
	return list
}

// Outdated reports whether a factory builds other plugins for the session than those of the stack.
func (s *Stack) Outdated(in BuildContext) bool {
	return !slices.Equal(s.built, s.builder.revisions(in))
}
