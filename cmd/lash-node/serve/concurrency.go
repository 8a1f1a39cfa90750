package serve

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/workers"
)

// concurrency is the number of jobs of each class that a node runs at once; 0 is the default.
type concurrency struct{ Turn, Tool, Task int }

// Decode implements [kong.MapperValue]: "turn=N,tool=N,task=N", any of them, or a number alone, which is that of
// turns.
func (c *concurrency) Decode(ctx *kong.DecodeContext) error {
	var text string
	switch v := ctx.Scan.Pop().Value.(type) {
	case string:
		text = v
	case float64: // from a configuration file
		text = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Errorf("got %v, want turn=N,tool=N,task=N", v)
	}
	*c = concurrency{}
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		class, count, named := strings.Cut(part, "=")
		if !named {
			class, count = string(workers.RoleTurn), class
		}
		n, err := strconv.Atoi(count)
		switch {
		case err != nil || n < 1:
			errs = append(errs, fmt.Errorf("%q: want a number, at least 1", part))
		case class == string(workers.RoleTurn):
			c.Turn = n
		case class == string(workers.RoleTool):
			c.Tool = n
		case class == string(workers.RoleTask):
			c.Task = n
		default:
			errs = append(errs, fmt.Errorf("%q: no such class, want turn, tool or task", class))
		}
	}
	return errors.Join(errs...)
}

func rolesOf(names []string) []workers.Role {
	roles := make([]workers.Role, len(names))
	for i, name := range names {
		roles[i] = workers.Role(name)
	}
	return roles
}
