package call

import (
	"strings"

	"github.com/lash-go/lash/events"
)

// maxRuns limits the recorded runs of text and reasoning of an interrupted reply. References to that many bodies, and
// the inline text, fit in one event.
const maxRuns = 256

// streamedParts is what was streamed of a reply, in runs of one kind. Once there are [maxRuns], text is appended to the last run
// of its kind: all text is kept, and the order of the two kinds is lost.
type streamedParts []*partRun

type partRun struct {
	kind events.PartKind
	text strings.Builder
}

func (s *streamedParts) add(kind events.PartKind, text string) {
	runs := *s
	for i := len(runs) - 1; i >= 0 && (i == len(runs)-1 || len(runs) >= maxRuns); i-- {
		if runs[i].kind == kind {
			runs[i].text.WriteString(text)
			return
		}
	}
	run := &partRun{kind: kind}
	run.text.WriteString(text)
	*s = append(runs, run)
}

func (s streamedParts) parts() []events.Part {
	var list []events.Part
	for _, run := range s {
		list = append(list, events.Part{Kind: run.kind, Text: run.text.String()})
	}
	return list
}
