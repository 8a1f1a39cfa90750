package recording

import "github.com/lash-go/lash/events"

// Format says how a conversation was recorded.
type Format string

// The formats.
const (
	FormatChat Format = "chat" // OpenAI chat format, one conversation a line
	FormatPi   Format = "pi"   // pi session file, one entry a line
)

// Conversation is one recorded conversation.
type Conversation struct {
	ID      string // as recorded, else "<base name without extension>-<line>"; any text, not necessarily unique
	Format  Format
	File    string // as given to Read
	Line    int    // first line, from 1
	Entries []Entry
}

// EntryKind says what an entry holds.
type EntryKind string

// The kinds of entries and the fields of [Entry] that each uses.
const (
	EntrySystem     EntryKind = "system"     // Message
	EntryUser       EntryKind = "user"       // Message
	EntryReply      EntryKind = "reply"      // Reply
	EntryResult     EntryKind = "result"     // Result
	EntryConfig     EntryKind = "config"     // Config
	EntryShell      EntryKind = "shell"      // Type, Raw: a command the user ran, not the model
	EntryCompaction EntryKind = "compaction" // Compaction
	EntryOther      EntryKind = "other"      // Type, Raw
)

// Entry is one step of a conversation: a message of a chat or a line of a pi
// file. A pi file's header is an [EntryConfig], so that entries and lines
// count alike.
type Entry struct {
	Kind   EntryKind
	Line   int    // in the file, from 1
	Index  int    // in Entries, from 0; in chats also the position in messages
	ID     string // pi, from version 2: the entry's own; empty where the format is linear
	Parent string // pi, from version 2: the entry this one follows; empty for the first and in linear formats

	Message    events.Message // Role and Parts; Parts may be empty
	Reply      Reply
	Result     Result
	Config     Config
	Compaction Compaction

	Type string // recorded type, or role of a message: "bashExecution", "custom", "label"
	Raw  []byte // the entry's JSON, compacted
}

// Reply is what a model answered.
type Reply struct {
	Parts    []events.Part // text, reasoning and tool_call parts in order, rarely attachments; may be empty
	Stop     events.StopReason
	Error    string // message of the provider; empty where there was none
	Model    string // empty in chats
	Provider string // empty in chats
	Usage    events.Usage
}

// Result is how a tool call ended.
type Result struct {
	Call        events.CallID // as recorded; of the legacy function role the matched call's, which is empty as a rule
	Tool        string        // as recorded, else the matched call's; may be empty
	Text        string        // text parts, joined with newlines where several
	Attachments []events.Part // all other parts
	Failed      bool          // always false in chats, which do not say
	ReplyIndex  int           // index in Entries of the reply that called; -1 for an orphan
	CallIndex   int           // index among that reply's tool_call parts; -1 for an orphan
}

// Orphan reports whether no call was found for r.
func (r Result) Orphan() bool { return r.ReplyIndex < 0 }

// Config is a change of settings. Empty fields did not change.
type Config struct {
	Model    string
	Provider string
	Thinking string // level as pi names it: "off", "high"
}

// Compaction replaces the entries before FirstKept by a summary.
type Compaction struct {
	Summary      string
	FirstKept    int   // index in Entries, below the compaction's own; -1 when unknown
	TokensBefore int64 // 0 when unknown
}
