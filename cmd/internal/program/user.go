package program

import (
	"os/user"

	"github.com/lash-go/lash/events"
)

// UserName is the name of the user of the operating system. It is otherwise where there is none, or where a history
// cannot record it as an actor.
func (s *Streams) UserName(otherwise string) string {
	name := s.Env("USER")
	if own, err := user.Current(); name == "" && err == nil {
		name = own.Username
	}
	if events.CheckToken("actor", name) != nil {
		return otherwise
	}
	return name
}
