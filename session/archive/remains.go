package archive

import (
	"context"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Remains counts what a redacted history keeps that guesses of a redacted payload can be tested with. FORMAT.md has the
// reasons.
type Remains struct {
	Requests int64 `json:"requests,omitempty"` // unsalted digests of the requests that redacted events came from
	Prompts  int64 `json:"prompts,omitempty"`  // digests of prompts, which redacted events may be part of
	Unsalted int64 `json:"unsalted,omitempty"` // digests of redacted payloads without a salt

	any bool // a payload is redacted
}

// Any reports whether there is anything.
func (r *Remains) Any() bool { return r.Requests+r.Prompts+r.Unsalted > 0 }

// add counts those of the next commit.
func (r *Remains) add(c *events.Commit) {
	redacted := int64(0)
	for i := range c.Events {
		if c.Events[i].Redacted != nil {
			redacted++
		}
		switch c.Events[i].Payload.(type) {
		case *events.ModelReplied, *events.ModelFailed, *events.ModelInterrupted:
			if r.any && c.Events[i].Encrypted == nil {
				r.Prompts++
			}
		}
	}
	if redacted == 0 {
		return
	}
	r.any = true
	if c.Digest != "" && c.EncryptedDigest == nil && !events.IsSalted(c.Digest) {
		r.Requests++
	}
	if c.Salt == nil {
		r.Unsalted += redacted
	}
}

// RemainsOf counts those of a session; nil where there are none.
func RemainsOf(ctx context.Context, log events.Log, id events.SessionID) (*Remains, error) {
	r := &Remains{}
	for e, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, fmt.Errorf("read redacted session %s: %w", id, err)
		}
		r.add(e.Commit)
	}
	if !r.Any() {
		return nil, nil //nolint:nilnil // none
	}
	return r, nil
}

// String says what remains, and what to do about it.
func (r *Remains) String() string {
	var list []string
	for _, one := range []struct {
		n    int64
		text string
	}{
		{r.Prompts, "digests of prompts: %d, which redacting model.* removes"},
		{r.Requests, "digests of requests without a salt: %d"},
		{r.Unsalted, "digests of payloads without a salt: %d"},
	} {
		if one.n > 0 {
			list = append(list, fmt.Sprintf(one.text, one.n))
		}
	}
	return "guesses of a short redacted text can be tested with what stays (" + strings.Join(list, "; ") + ")"
}
