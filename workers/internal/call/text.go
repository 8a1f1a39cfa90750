package call

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// maxDetail bounds recorded error texts, in bytes.
const maxDetail = 4000

// Clip makes a text fit to be recorded as the text of an error: valid UTF-8, at
// most 4000 bytes and a note of how many more there were.
func Clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	head := events.Clip(s, maxDetail, "")
	if head != s {
		head += fmt.Sprintf(" [%d more bytes]", len(s)-len(head))
	}
	return head
}

// IssueOf makes an issue of an error.
func IssueOf(kind, code string, err error) events.Issue {
	return events.Issue{Kind: kind, Code: code, Message: Clip(err.Error())}
}

// textOf joins the text parts, without separators.
func textOf(parts []events.Part) string {
	return events.Message{Parts: parts}.Text()
}

// exceptOne is how a number of attempts is recorded: 0 stands for the usual one.
func exceptOne(attempts int) int64 {
	if attempts == 1 {
		return 0
	}
	return int64(attempts)
}
