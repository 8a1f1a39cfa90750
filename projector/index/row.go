package index

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Version changes with every change of [Of], of words, or of the row. Rows of other versions are made again.
const Version = 1

// MaxWordsBytes limits the words of a row, in bytes. What exceeds it is left out, and the row says so: such a session
// may match every search for a text.
const MaxWordsBytes = 64 << 10

// lastBytes limits the last reply in a row, in bytes.
const lastBytes = 160

// Row is what is indexed of a session.
type Row struct {
	Version int64               `msgpack:"v"`
	Session events.SessionID    `msgpack:"s"`
	Seq     events.Seq          `msgpack:"q"`           // of the last indexed commit
	Commit  events.CommitID     `msgpack:"c,omitempty"` // its id; empty in rows of earlier programs
	First   events.Millis       `msgpack:"f"`           // time of the first commit
	At      events.Millis       `msgpack:"t"`           // time of the last commit
	Words   []byte              `msgpack:"w,omitempty"`
	Partial bool                `msgpack:"p,omitempty"` // some words were left out
	Last    string              `msgpack:"l,omitempty"` // the beginning of the last reply
	Labels  map[string]string   `msgpack:"b,omitempty"`
	Model   string              `msgpack:"m,omitempty"`
	Usage   []events.UsageEntry `msgpack:"u,omitempty"` // of all calls by model, those of children included
}

// Decode reads a row. Its words share the memory of data, which must not change afterwards. Errors: [events.ErrMalformed], also of a row of another version.
func Decode(data []byte) (*Row, error) {
	var r Row
	if err := events.DecodePayloadShared(data, &r); err != nil {
		return nil, err
	}
	if r.Version != Version {
		return nil, fmt.Errorf("%w: index row of version %d, this program has %d", events.ErrMalformed, r.Version, Version)
	}
	if len(r.Words) > MaxWordsBytes {
		return nil, fmt.Errorf("%w: index row of %s: %d bytes of words, limit is %d", events.ErrMalformed, r.Session, len(r.Words), MaxWordsBytes)
	}
	return &r, nil
}

// Marks of the names among the words. No word begins with one.
const (
	toolMark    = "\x01t"
	actorMark   = "\x01a"
	outcomeMark = "\x01o"
)

// Builder makes a row from the commits of a history, in order. It is not safe for concurrent use.
type Builder struct {
	row   Row
	fresh map[string]bool // words since the row was encoded
}

// NewBuilder continues a row, or starts an empty one for nil.
func NewBuilder(session events.SessionID, from *Row) *Builder {
	b := &Builder{row: Row{Version: Version, Session: session}, fresh: make(map[string]bool)}
	if from != nil {
		b.row = *from
	}
	return b
}

// Seq is the sequence of the last added commit.
func (b *Builder) Seq() events.Seq { return b.row.Seq }

// Commit is the id of the last added commit; empty where it is not known.
func (b *Builder) Commit() events.CommitID { return b.row.Commit }

// Reset starts an empty row.
func (b *Builder) Reset() { *b = *NewBuilder(b.row.Session, nil) }

// Add adds the next commit. Commits that the row has already change nothing.
func (b *Builder) Add(e events.Entry) {
	if e.Seq != b.row.Seq+1 {
		return
	}
	b.row.Seq, b.row.Commit, b.row.At = e.Seq, e.Commit.ID, e.Commit.At
	if e.Seq == 1 {
		b.row.First = e.Commit.At
	}
	b.name(actorMark, e.Commit.Actor.String())
	for i := range e.Commit.Events {
		f := Of(&e.Commit.Events[i])
		for _, text := range f.Texts {
			words(text, b.word)
		}
		for _, tool := range f.Tools {
			b.name(toolMark, tool)
		}
		for _, outcome := range f.Outcomes {
			b.name(outcomeMark, outcome)
		}
		if by, ok := e.Commit.Events[i].Payload.(*events.ToolApprovalGiven); ok && by.By != "" {
			b.name(actorMark, by.By)
		}
		if f.Last != "" {
			b.row.Last = events.Clip(strings.Join(strings.Fields(events.Clip(f.Last, 4*lastBytes, "")), " "), lastBytes, "...")
		}
	}
}

func (b *Builder) word(w string) {
	if !b.row.Partial {
		b.fresh[w] = true
	}
}

// name adds a name. Names have priority over words: they count while words are left out.
func (b *Builder) name(mark, name string) {
	name = strings.ReplaceAll(events.Clip(name, events.MaxIDBytes, ""), "\n", " ")
	b.fresh[mark+name] = true
}

// Settings are what a row has of the session's state.
type Settings struct {
	Labels map[string]string
	Model  string
	Usage  []events.UsageEntry
}

// Encode is the row of the commits so far.
func (b *Builder) Encode(s Settings) ([]byte, error) {
	b.row.Labels, b.row.Model, b.row.Usage = s.Labels, s.Model, s.Usage
	if len(b.fresh) > 0 {
		list, err := merged(b.row.Words, b.fresh)
		if err != nil {
			return nil, err
		}
		whole := false
		b.row.Words, whole = encode(list, MaxWordsBytes) // marks sort before words, so that names stay
		b.row.Partial = b.row.Partial || !whole
		clear(b.fresh)
	}
	return events.EncodePayload(&b.row)
}
