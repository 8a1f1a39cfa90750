package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Codes of errors of kind [KindUnfinished].
const (
	CodeEmpty      = "empty_response" // neither text nor a call: thinking alone is no answer
	CodeUnknownEnd = "unknown_end"    // no end, one of unknown meaning, or one that says calls without a call
	CodeCutCall    = "cut_call"       // a call whose arguments are no JSON
)

// Finished refuses a reply that no turn may act on: no call of it runs, and its text is no answer. A reply that its limit, a
// filter or a full window ended is finished: its end says what it lacks. The error is an [*Error] of kind unfinished.
func (r *Response) Finished() error {
	if r.Accepted {
		return nil
	}
	calls, says := 0, false
	for _, p := range r.Parts {
		switch p.Kind {
		case events.PartToolCall:
			calls++
			if args := bytes.TrimSpace(p.Args); len(args) > 0 && !json.Valid(args) && p.Blob.IsZero() && r.ends() {
				return unfinished(CodeCutCall, "the arguments of the call of %s are cut off or no JSON: the call did not run", p.Tool)
			}
		case events.PartText:
			says = says || strings.TrimSpace(p.Text) != "" || !p.Blob.IsZero()
		default: // it says nothing
		}
	}
	switch {
	case r.Stop == events.StopUnknown:
		return unfinished(CodeUnknownEnd, "%s", strings.TrimSuffix("the reply has no known end: "+r.Detail, ": "))
	case !r.ends():
		return nil
	case calls == 0 && !says:
		return unfinished(CodeEmpty, "the reply is empty: it has neither text nor a call")
	case calls == 0 && r.Stop == events.StopToolUse:
		return unfinished(CodeUnknownEnd, "the reply ends as one with calls, and has none")
	}
	return nil
}

// ends reports whether the model ended the reply.
func (r *Response) ends() bool { return r.Stop == events.StopEnd || r.Stop == events.StopToolUse }

func unfinished(code, format string, args ...any) error {
	return &Error{Kind: KindUnfinished, Code: code, Message: Clip(fmt.Sprintf(format, args...))}
}
