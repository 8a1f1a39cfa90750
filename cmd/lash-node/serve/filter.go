package serve

import (
	"fmt"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/blob"
)

// filter reads the patterns of setting redact; nil without a file.
func (c *Command) filter() (*blob.Filter, error) {
	if c.Redact == "" {
		return nil, nil //nolint:nilnil // no filter
	}
	text, err := program.ReadFile(c.Redact, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("setting redact: %w", err)
	}
	f, err := blob.NewFilter(string(text))
	if err != nil {
		return nil, fmt.Errorf("setting redact %s: %w", c.Redact, err)
	}
	return f, nil
}
