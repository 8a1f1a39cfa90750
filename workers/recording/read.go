package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Read parses one file. name is for errors, and for IDs if none is recorded. Conversations are in the order of their
// first lines; there is at least one. The first invalid line ends the read, unless it is in a transcript whose begin could be read, which counts
// it as lost: every error is a [*LineError], without conversations.
func Read(name string, r io.Reader) ([]Conversation, error) {
	return read(name, newLines(r, maxLineBytes))
}

func read(name string, l *lines) ([]Conversation, error) {
	f := file{name: name, claude: make(map[string]*claudeReader), claudeBy: make(map[string]*claudeReader), lost: make(map[string]int)}
	wrong := func(line int, err error) error {
		return &LineError{File: name, Line: line, Reason: err.Error(), Err: err}
	}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wrong(l.n, err)
		}
		n := l.n
		line, o, err := parseLine(line)
		if errors.Is(err, io.ErrUnexpectedEOF) && f.last == nil && len(f.scripts) == 0 {
			line, o, err = l.whole(line, err)
		}
		if err != nil && f.last != nil { // its program died, or ran twice
			f.last.conv.Lost["broken lines"]++
			continue
		}
		if err == nil {
			err = f.add(n, line, o)
		}
		if err != nil && f.last != nil && len(f.last.conv.Entries) > 0 { // its program has a newer form
			f.last.conv.Lost["unreadable lines"]++
			continue
		}
		if err != nil {
			return nil, wrong(l.n, err)
		}
	}
	all := f.conversations()
	switch {
	case len(all) > 0:
		return all, nil
	case len(f.lost) == 0:
		return nil, wrong(1, errors.New("the file is empty"))
	}
	return nil, wrong(1, errors.New("no message: "+LostText(f.lost)))
}

// file is a file that is being read.
type file struct {
	name     string
	scripts  []*script
	pi       *script                  // receives entries of pi; nil before the first
	claude   map[string]*claudeReader // by session
	claudeBy map[string]*claudeReader // by line
	codex    *codexReader             // nil before the first rollout
	items    *itemReader              // nil before the first item
	last     *script                  // of the newest line, where unknown lines count for it
	lost     map[string]int           // outside of the conversations
}

// add reads one line. Its content says of which form it is; a line that says nothing of the kind is of the form of the line before.
func (f *file) add(n int, line []byte, o object) error {
	kind, err := into[string](o["type"])
	_, isChat := o["messages"]
	_, isRecord := o["version"]
	typed := kindOf(o["type"]) != 'n'
	switch {
	case isChat:
		return f.addChat(n, line)
	case isRecord && kindOf(o["session"]) == '{':
		return f.addRecord(n, line)
	case err != nil:
		return fmt.Errorf("type: %w", err)
	case isOldCodex(o):
		head, err := into[codexPayload](line)
		f.openCodex(n, &head)
		return err
	case typed && isClaude(o):
		return f.addClaude(n, line, kind)
	case typed && isCodex(o):
		return f.addCodex(n, o["payload"], kind)
	case isPi(o):
		return f.addPi(n, line, kind)
	case isList(o) || isItem(o, f.items != nil && f.last == f.items.s):
		return f.addItems(n, line, o)
	case typed && f.pi != nil && f.pi.headed:
		return f.addPi(n, line, kind)
	case f.last != nil:
		f.last.conv.Lost[cmp.Or(kind, "other")+" lines"]++
	case typed: // programs write lines of new types before the first message
		f.lost[kind+" lines"]++
	default:
		return fmt.Errorf("of no known form: neither messages nor a type, but %s", strings.Join(slices.Sorted(maps.Keys(o)), ", "))
	}
	return nil
}

// open starts a conversation. An empty id is replaced with one made from the file's name and the line.
func (f *file) open(format Format, id string, line int) *script {
	if id == "" {
		id = fmt.Sprintf("%s-%d", baseName(f.name), line)
	}
	s := newScript(Conversation{ID: id, Format: format, File: f.name, Line: line})
	f.scripts = append(f.scripts, s)
	return s
}

// conversations are those with a message. What the others have counts as lost, and so do those of subagents beside that of their session.
func (f *file) conversations() []Conversation {
	var all []Conversation
	for _, s := range f.scripts {
		if f.isMessage(s) {
			all = append(all, s.conv)
			continue
		}
		for i := range s.conv.Entries {
			e := &s.conv.Entries[i]
			what := cmp.Or(e.Type, string(e.Kind)) + " entries"
			if s.side {
				what = "entries of subagents"
			}
			f.lost[what]++
		}
		addCounts(f.lost, s.conv.Lost)
	}
	if len(all) > 0 {
		addCounts(all[0].Lost, f.lost)
	}
	return all
}

func addCounts(sum, more map[string]int) {
	for what, n := range more {
		sum[what] += n
	}
}

// isMessage reports whether a script is a conversation to return.
func (f *file) isMessage(s *script) bool {
	if s.conv.Format == FormatChat || s.conv.Format == FormatRecord {
		return true
	}
	if s.side && slices.ContainsFunc(f.scripts, func(other *script) bool { return !other.side && f.isMessage(other) }) {
		return false
	}
	return slices.ContainsFunc(s.conv.Entries, func(e Entry) bool { return e.spoken(s.conv.Format) })
}

// LostText lists counts, the most frequent first.
func LostText(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}

func baseName(name string) string {
	base := filepath.Base(name)
	if cut := strings.TrimSuffix(base, filepath.Ext(base)); cut != "" {
		return cut
	}
	return base
}
