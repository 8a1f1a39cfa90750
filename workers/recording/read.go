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
// first lines; there is at least one. The first invalid line ends the read: every error is a [*LineError], without
// conversations.
func Read(name string, r io.Reader) ([]Conversation, error) {
	return read(name, newLines(r, maxLineBytes))
}

func read(name string, l *lines) ([]Conversation, error) {
	f := file{name: name, claude: make(map[string]*claudeReader), claudeBy: make(map[string]*claudeReader)}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var o object
		if err == nil {
			n := l.n
			if o, err = parseLine(line); errors.Is(err, io.ErrUnexpectedEOF) && f.last == nil && len(f.scripts) == 0 {
				line, o, err = l.whole(line, err)
			}
			switch {
			case err == nil:
				err = f.add(n, line, o)
			case f.last != nil: // its program died, or ran twice
				f.last.lose("broken lines")
				continue
			}
		}
		if err != nil {
			return nil, &LineError{File: name, Line: l.n, Reason: err.Error(), Err: err}
		}
	}
	if len(f.scripts) == 0 && f.lost == nil {
		return nil, &LineError{File: name, Line: 1, Reason: "the file is empty"}
	}
	all := f.conversations()
	if len(all) == 0 {
		return nil, &LineError{File: name, Line: 1, Reason: "no message: " + f.found()}
	}
	return all, nil
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
	lost     map[string]int           // before the first conversation
}

// add reads one line. Its content says of which form it is; a line that says nothing of the kind is of the form of the line before.
func (f *file) add(n int, line []byte, o object) error {
	if _, ok := o["messages"]; ok {
		return f.addChat(n, o)
	}
	if _, ok := o["version"]; ok && kindOf(o["session"]) == '{' {
		return f.addRecord(n, o)
	}
	if isOldCodex(o) {
		_, err := f.openCodex(n, o)
		return err
	}
	kind, ok, err := o.str("type")
	all, isItems := itemsOf(o, f.items != nil && f.last == f.items.s)
	switch {
	case err != nil:
		return err
	case ok && isClaude(o):
		return f.addClaude(n, o, kind)
	case ok && isCodex(o):
		return f.addCodex(n, o, kind)
	case isPi(o):
		return f.addPi(n, line, o, kind)
	case isItems:
		return f.addItems(n, o, all)
	case ok && f.pi != nil && f.pi.headed:
		return f.addPi(n, line, o, kind)
	case f.last != nil:
		f.last.lose(cmp.Or(kind, "other") + " lines")
		return nil
	case ok: // programs write lines of new types before the first message
		f.lose(kind + " lines")
		return nil
	}
	return fmt.Errorf("of no known form: neither messages nor a type, but %s", strings.Join(slices.Sorted(maps.Keys(o)), ", "))
}

// lose counts a line before the first conversation.
func (f *file) lose(what string) {
	if f.lost == nil {
		f.lost = make(map[string]int)
	}
	f.lost[what]++
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
	lost := f.lost
	for _, s := range f.scripts {
		if f.isMessage(s) {
			all = append(all, s.conv)
			continue
		}
		if lost == nil {
			lost = make(map[string]int)
		}
		what := "entries without a message"
		if s.side {
			what = "entries of subagents"
		}
		lost[what] += len(s.conv.Entries)
		for what, n := range s.conv.Lost {
			lost[what] += n
		}
	}
	if len(all) == 0 || len(lost) == 0 {
		return all
	}
	sum := maps.Clone(all[0].Lost)
	if sum == nil {
		sum = make(map[string]int)
	}
	for what, n := range lost {
		sum[what] += n
	}
	all[0].Lost = sum
	return all
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

// found says what a file without a message has.
func (f *file) found() string {
	counts := maps.Clone(f.lost)
	if counts == nil {
		counts = make(map[string]int)
	}
	for _, s := range f.scripts {
		for i := range s.conv.Entries {
			e := &s.conv.Entries[i]
			counts[cmp.Or(e.Type, string(e.Kind))+" entries"]++
		}
		for what, n := range s.conv.Lost {
			counts[what] += n
		}
	}
	return LostText(counts)
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
