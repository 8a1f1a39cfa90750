package program

import "fmt"

// Unconfirmed is the error of a command that cannot be undone and lacks --yes, with the exit code [Failed]. does is what --yes
// does, as a clause: "erases session s".
func Unconfirmed(does string, args ...any) error {
	return fmt.Errorf("nothing is done: --yes %s, which cannot be undone", fmt.Sprintf(does, args...))
}
