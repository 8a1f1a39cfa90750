package recording

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// piLine is an entry of pi, of any type.
type piLine struct {
	ID            identifier        `json:"id"`
	Parent        string            `json:"parentId"`
	Message       *piMessage        `json:"message"`
	Model         string            `json:"modelId"`
	Provider      string            `json:"provider"`
	Thinking      string            `json:"thinkingLevel"`
	Summary       string            `json:"summary"`
	Content       json.RawMessage   `json:"content"`
	TokensBefore  count             `json:"tokensBefore"`
	FirstKeptID   string            `json:"firstKeptEntryId"`
	FirstKeptLine *count            `json:"firstKeptEntryIndex"` // version 1
	RetainedTail  []json.RawMessage `json:"retainedTail"`
}

type piMessage struct {
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content"`
	Stop     string          `json:"stopReason"`
	Error    string          `json:"errorMessage"`
	Model    string          `json:"model"`
	Provider string          `json:"provider"`
	Usage    usage           `json:"usage"`

	Call   *events.CallID `json:"toolCallId"`
	Tool   string         `json:"toolName"`
	Failed bool           `json:"isError"`

	Command   string `json:"command"`
	Output    string `json:"output"`
	ExitCode  count  `json:"exitCode"`
	Cancelled bool   `json:"cancelled"`
	LeftOut   bool   `json:"excludeFromContext"`
}

// isPi reports whether a line is an entry of pi, of a type that pi has. Those of other types belong to a file with a header.
func isPi(o object) bool {
	switch textOf(o["type"]) {
	case "message":
		return kindOf(o["role"]) == 'n'
	case "compaction":
		return kindOf(o["encrypted_content"]) == 'n'
	case "session", "model_change", "thinking_level_change", "branch_summary", "custom", "custom_message", "label", "session_info", "usage", "context_edit":
		return !isCodex(o) && !isClaude(o)
	}
	return false
}

// addPi reads one entry of a pi file. A header opens a conversation, and so does an entry before any header.
func (f *file) addPi(line int, raw []byte, kind string) error {
	l, err := into[piLine](raw)
	if f.pi == nil || kind == "session" {
		id := l.ID
		if kind != "session" {
			id = ""
		}
		f.pi = f.open(FormatPi, string(id), line)
		f.pi.headed = kind == "session"
	}
	f.last = f.pi
	e := Entry{Line: line, ID: string(l.ID), Parent: l.Parent}
	if kind == "session" {
		e.ID = ""
	}
	if wrong := f.pi.piEntry(&e, kind, &l); err == nil {
		err = wrong
	}
	if e.Kind == EntryOther || e.Kind == EntryShell {
		e.Raw = compact(raw)
	}
	if e.Kind == EntryOther { // it may have any form
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	f.pi.add(e)
	return nil
}

func (s *script) piEntry(e *Entry, kind string, l *piLine) (err error) {
	switch kind {
	case "message":
		if l.Message == nil {
			return errors.New("no message")
		}
		return e.piMessage(l.Message)
	case "session", "model_change", "thinking_level_change": // the header has settings in version 1
		e.Kind, e.Config = EntryConfig, Config{Model: l.Model, Provider: l.Provider, Thinking: l.Thinking}
	case "compaction":
		e.Kind, e.Compaction = EntryCompaction, Compaction{Summary: l.Summary, TokensBefore: int64(l.TokensBefore), FirstKept: s.firstKept(l)}
	case "custom_message":
		e.Kind, e.Message.Role = EntryContext, events.RoleUser
		e.Message.Parts, err = content(l.Content, false)
	case "branch_summary":
		e.Kind, e.Message = EntryContext, userText("Summary of a branch that was left:\n\n"+l.Summary)
	default:
		if kind == "context_edit" {
			s.conv.Lost["effects of context edits"]++
		}
		e.Kind, e.Type = EntryOther, kind
	}
	return err
}

func userText(text string) events.Message {
	return events.Message{Role: events.RoleUser, Parts: []events.Part{textPart(text)}}
}

// firstKept finds the first entry that a compaction kept. Version 1 counts the lines of the file from the header, 0.
// So does Entries.
func (s *script) firstKept(l *piLine) int {
	if n := len(l.RetainedTail); n > 0 {
		return s.messagesBefore(l.Parent, n)
	}
	if i, ok := s.ids[l.FirstKeptID]; ok {
		return i
	}
	if n := l.FirstKeptLine; n != nil && *n >= 0 && int(*n) < len(s.conv.Entries) && (*n > 0 || !s.headed) {
		return int(*n)
	}
	return -1
}

// messagesBefore is the first of the n newest messages up to an entry, which a compaction copied into itself.
func (s *script) messagesBefore(id string, n int) int {
	seen := make(map[int]bool) // parents may go round
	for i, ok := s.ids[id]; ok && !seen[i]; i, ok = s.ids[s.conv.Entries[i].Parent] {
		seen[i] = true
		switch s.conv.Entries[i].Kind {
		case EntryConfig, EntryCompaction, EntryOther:
		case EntrySystem, EntryUser, EntryContext, EntryReply, EntryResult, EntryShell:
			if n--; n == 0 {
				return i
			}
		}
	}
	s.conv.Lost["messages that a compaction retained"]++
	return -1
}

// piMessage reads the message of an entry.
func (e *Entry) piMessage(m *piMessage) error {
	parts, err := content(m.Content, m.Role == "assistant")
	switch m.Role {
	case "user":
		e.Kind, e.Message = EntryUser, events.Message{Role: events.RoleUser, Parts: parts}
	case "custom", "hookMessage":
		e.Kind, e.Message = EntryContext, events.Message{Role: events.RoleUser, Parts: parts}
	case "assistant":
		e.Kind = EntryReply
		e.Reply = Reply{Parts: parts, Stop: stopOf(m.Stop), Error: m.Error, Model: m.Model, Provider: m.Provider, Usage: m.Usage.events()}
	case "toolResult":
		if m.Call == nil {
			return errors.New("no toolCallId")
		}
		e.Kind, e.Result = EntryResult, Result{Call: *m.Call, Tool: m.Tool, Failed: m.Failed}
		e.Result.Text, e.Result.Attachments = splitResult(parts)
	case "bashExecution":
		e.piShell(m)
	case "":
		err = errors.New("message: no role")
	default:
		e.Kind, e.Type = EntryOther, m.Role
	}
	return err
}

// piShell reads a command that the user ran. The model sees it, unless the user left it out.
func (e *Entry) piShell(m *piMessage) {
	if m.LeftOut {
		e.Kind, e.Type = EntryShell, "bashExecution"
		return
	}
	text := "The user ran `" + m.Command + "`:\n\n" + m.Output
	switch {
	case m.Cancelled:
		text += "\n\nThe command was cancelled."
	case m.ExitCode != 0:
		text += fmt.Sprintf("\n\nThe command exited with code %d.", m.ExitCode)
	}
	e.Kind, e.Message = EntryContext, userText(text)
}
