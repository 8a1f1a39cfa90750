package call

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// maxDetail limits recorded error texts, in bytes.
const maxDetail = 4000

// clip returns a text in the form of a recorded error text: valid UTF-8, at most 4000 bytes and a note with the
// omitted length.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	head := events.Clip(s, maxDetail, "")
	if head != s {
		head += fmt.Sprintf(" [%d more bytes]", len(s)-len(head))
	}
	return head
}

// IssueOf converts an error to an issue.
func IssueOf(kind, code string, err error) events.Issue {
	return events.Issue{Kind: kind, Code: code, Message: clip(err.Error())}
}

// textOf joins the text parts, without separators.
func textOf(parts []events.Part) string {
	return events.Message{Parts: parts}.Text()
}

// exceptOne is the recorded number of attempts: 0 stands for 1.
func exceptOne(attempts int) int64 {
	if attempts == 1 {
		return 0
	}
	return int64(attempts)
}
