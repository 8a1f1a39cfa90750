package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/transcript"
)

// Kind is the source of a line.
type Kind int

// The kinds.
const (
	Said     Kind = iota // prompt of a user
	Reply                // text of the model
	Partial              // text of an unfinished reply, which the conversation does not have
	Thought              // reasoning of the model
	Call                 // a call of a tool
	Result               // result of a tool
	Question             // a call that waits for an approval
	Note                 // message of the chat
	Problem              // failure
	Hint                 // a command to copy: never broken into rows, and without text of users, models or tools
)

// Line is one line of a chat. Its text has no line breaks and no control characters.
type Line struct {
	Kind Kind
	Text string
}

// Own reports whether the line is the chat's own. Those lines begin at the margin.
func (l Line) Own() bool {
	switch l.Kind {
	case Said, Note, Problem, Question, Hint:
		return true
	case Reply, Partial, Thought, Call, Result:
	}
	return false
}

// String is the line with its indentation.
func (l Line) String() string {
	indent := ""
	if !l.Own() {
		indent = "  "
	}
	return strings.TrimRight(indent+l.Text, " ")
}

// linesOf are the lines of a text, escaped.
func linesOf(kind Kind, text string) []Line {
	if text == "" {
		return nil
	}
	var list []Line
	for line := range strings.SplitSeq(strings.TrimSuffix(transcript.Visible(text), "\n"), "\n") {
		list = append(list, Line{kind, line})
	}
	return list
}

// noted is a line of the chat itself, escaped.
func noted(kind Kind, format string, args ...any) Line {
	return Line{kind, transcript.VisibleLine(fmt.Sprintf(format, args...))}
}

// packed is JSON on one line.
func packed(args []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, args) == nil {
		return b.String()
	}
	return string(args)
}

// textOf joins the texts of a message. It names the parts that are no text.
func textOf(parts []events.Part) string {
	var list []string
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case events.PartText:
			if !p.Blob.IsZero() {
				list = append(list, fmt.Sprintf("(a text of %d bytes that cannot be read)", p.Blob.Size))
				continue
			}
			list = append(list, p.Text)
		case events.PartAttachment:
			list = append(list, fmt.Sprintf("(attachment %s)", p.MediaType))
		case events.PartReasoning, events.PartToolCall, events.PartToolResult:
		}
	}
	return strings.Join(list, "\n")
}

// clip shortens a text to a number of lines and bytes, and appends the command that shows the rest.
func clip(text string, lines, limit int, more string) string {
	head := events.Clip(text, limit, "")
	if at := nth(head, '\n', lines); at >= 0 {
		head = head[:at]
	}
	rest := text[len(head):]
	if strings.TrimSpace(rest) == "" {
		return head
	}
	note := fmt.Sprintf(" … (%d more bytes, %s)", len(rest), more)
	if len(rest) <= len(note) && !strings.Contains(rest, "\n") {
		return text // the note would be longer than the hidden text
	}
	return head + note
}

// nth is the index of the n-th c in text, from 1; -1 where there are fewer.
func nth(text string, c byte, n int) int {
	at := -1
	for range n {
		next := strings.IndexByte(text[at+1:], c)
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	return at
}
