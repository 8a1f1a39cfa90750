package recording

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Format is the format of a recording.
type Format string

// Values of [Format].
const (
	FormatChat Format = "chat" // OpenAI chat format, one conversation in each line
	FormatPi   Format = "pi"   // pi session file, one entry in each line
)

// Conversation is one recorded conversation.
type Conversation struct {
	ID      string // as recorded, else "<base name without extension>-<line>"; any text; may repeat
	Format  Format
	File    string // as given to Read
	Line    int    // first line, from 1
	Entries []Entry
	// Lost is what the file says and the entries do not, with how often.
	Lost map[string]int
}

// saidLength bounds [Conversation.Said], in runes.
const saidLength = 60

// Said is the last text of the model, cut; empty for none. By it a person knows the conversation again.
func (c *Conversation) Said() string {
	for i := len(c.Entries) - 1; i >= 0; i-- {
		words := strings.Fields((events.Message{Parts: c.Entries[i].Reply.Parts}).Text())
		if said := []rune(strings.Join(words, " ")); len(said) > saidLength {
			return string(said[:saidLength]) + "…"
		} else if len(said) > 0 {
			return string(said)
		}
	}
	return ""
}

// EntryKind is the kind of an entry.
type EntryKind string

// The kinds of entries and the fields of [Entry] that each uses.
const (
	EntrySystem     EntryKind = "system"     // Message
	EntryUser       EntryKind = "user"       // Message
	EntryContext    EntryKind = "context"    // Message: what the model reads, and no prompt
	EntryReply      EntryKind = "reply"      // Reply
	EntryResult     EntryKind = "result"     // Result
	EntryConfig     EntryKind = "config"     // Config
	EntryShell      EntryKind = "shell"      // Type, Raw: a command that the user ran, which the model does not see
	EntryCompaction EntryKind = "compaction" // Compaction
	EntryOther      EntryKind = "other"      // Type, Raw
)

// Entry is one step of a conversation: a message of a chat or a line of a pi file. The header of a pi file is an
// [EntryConfig], so that entries and lines have equal counts.
type Entry struct {
	Kind   EntryKind
	Line   int    // in the file, from 1
	Index  int    // in Entries, from 0; in chats also the position in messages
	ID     string // pi, from version 2; empty if the format is linear
	Parent string // pi, from version 2: the entry before this one; empty for the first and in linear formats
	Jumps  bool   // the parent is in the file, and is not the entry before this one; or this is another first entry

	Message    events.Message // Role and Parts; Parts may be empty
	Reply      Reply
	Result     Result
	Config     Config
	Compaction Compaction

	Type string // recorded type, or role of a message: "bashExecution", "custom", "label"
	Raw  []byte // the entry's JSON, compacted
}

// Reply is a reply of the model.
type Reply struct {
	Parts    []events.Part // text, reasoning and tool_call parts in order, rarely attachments; may be empty
	Stop     events.StopReason
	Error    string // message of the provider; may be empty
	Model    string // empty in chats
	Provider string // empty in chats
	Usage    events.Usage
}

// Result is the result of a tool call.
type Result struct {
	Call        events.CallID // as recorded; for the legacy function role that of the matching call, usually empty
	Tool        string        // as recorded, else that of the matching call; may be empty
	Text        string        // text parts, joined with newlines
	Attachments []events.Part // all other parts
	Failed      bool          // always false in chats, which do not record it
	ReplyIndex  int           // index in Entries of the reply with the call; -1 for an orphan
	CallIndex   int           // index among that reply's tool_call parts; -1 for an orphan
}

// Orphan reports whether r has no call.
func (r Result) Orphan() bool { return r.ReplyIndex < 0 }

// Config is a change of settings. Empty fields do not change.
type Config struct {
	Model    string
	Provider string
	Thinking string // level in pi's terms: "off", "high"
}

// Compaction replaces the entries before FirstKept with a summary.
type Compaction struct {
	Summary      string
	FirstKept    int   // index in Entries, below that of the compaction; -1 if unknown
	TokensBefore int64 // 0 if unknown
}

// spoken reports whether an entry is a message. A call or a result alone is none where the format has these as items of their own.
func (e *Entry) spoken(f Format) bool {
	itemised := f == FormatResponses || f == FormatCodex
	switch e.Kind {
	case EntrySystem, EntryUser, EntryContext:
		return true
	case EntryResult:
		return !itemised
	case EntryReply:
		says := func(p events.Part) bool { return p.Kind != events.PartToolCall }
		return !itemised || slices.ContainsFunc(e.Reply.Parts, says)
	case EntryConfig, EntryShell, EntryCompaction, EntryOther:
	}
	return false
}
