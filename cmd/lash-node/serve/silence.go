package serve

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/workers"
)

// Silence is how long models may send no content, as a flag.
type Silence struct {
	workers.ModelSilence

	Text string // of the flag
}

// Decode implements [kong.MapperValue]: "DURATION", "PATTERN=DURATION", or several of them.
func (s *Silence) Decode(ctx *kong.DecodeContext) error {
	text, ok := ctx.Scan.Pop().Value.(string)
	if !ok {
		return errors.New("want a duration, as 5m, and PATTERN=DURATION")
	}
	*s = Silence{Text: text}
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		pattern, limit, named := strings.Cut(part, "=")
		if !named {
			limit = pattern
		}
		d, err := time.ParseDuration(limit)
		switch {
		case err != nil || d <= 0:
			errs = append(errs, fmt.Errorf("%q: want a duration of more than 0, as 5m", part))
		case named:
			s.Models = append(s.Models, workers.SilenceOf{Pattern: pattern, Limit: d})
		default:
			s.Limit = d
		}
	}
	return errors.Join(errs...)
}
