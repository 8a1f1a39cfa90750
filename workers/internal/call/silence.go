package call

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/pattern"
)

// Silence sets how long a model may send no content, before its reply and within it. A session's own limit goes first.
type Silence struct {
	Limit  time.Duration  // of models that Models has no limit of. Defaults to 5 min
	Models []ModelSilence // the first whose pattern matches counts
}

// ModelSilence is the limit of the models whose names match a pattern, in which * is any text.
type ModelSilence struct {
	Pattern string
	Limit   time.Duration
}

// Defaults sets zero fields to their defaults, and rejects negative ones.
func (s *Silence) Defaults() error {
	for _, m := range append(s.Models, ModelSilence{Limit: s.Limit + 1}) {
		if m.Limit <= 0 {
			return fmt.Errorf("model silence: %v, want more than 0", m.Limit)
		}
	}
	s.Limit = cmp.Or(s.Limit, 5*time.Minute)
	return nil
}

// of is the limit of a call of model in a session.
func (s *Silence) of(c events.Config, model string) time.Duration {
	if c.SilenceMillis > 0 {
		return time.Duration(c.SilenceMillis) * time.Millisecond
	}
	for _, m := range s.Models {
		if pattern.Match(m.Pattern, model, "") {
			return m.Limit
		}
	}
	return s.Limit
}
