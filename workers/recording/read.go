package recording

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Read parses one file. name is for errors, and for IDs if none is recorded. Conversations are in the order of their
// first lines; there is at least one. The first invalid line ends the read: every error is a [*LineError], without
// conversations.
func Read(name string, r io.Reader) ([]Conversation, error) {
	return read(name, newLines(r, maxLineBytes))
}

func read(name string, l *lines) ([]Conversation, error) {
	f := file{name: name}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = f.add(l.n, line)
		}
		if err != nil {
			return nil, &LineError{File: name, Line: l.n, Reason: err.Error(), Err: err}
		}
	}
	if len(f.scripts) == 0 {
		return nil, &LineError{File: name, Line: 1, Reason: "the file is empty"}
	}
	return f.conversations(), nil
}

// file is a file that is being read.
type file struct {
	name    string
	scripts []*script
	pi      *script // receives entries of pi; nil before the first
}

// add reads one line: a chat if it has messages, a record if it has a session, else an entry of pi.
func (f *file) add(n int, line []byte) error {
	o, err := parseLine(line)
	if err != nil {
		return err
	}
	if _, ok := o["messages"]; ok {
		return f.addChat(n, o)
	}
	if _, ok := o["version"]; ok && kindOf(o["session"]) == '{' {
		return f.addRecord(n, o)
	}
	kind, ok, err := o.str("type")
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("neither a chat (no messages) nor a pi entry (no type)")
	}
	return f.addPi(n, line, o, kind)
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

func (f *file) conversations() []Conversation {
	all := make([]Conversation, len(f.scripts))
	for i, s := range f.scripts {
		all[i] = s.conv
	}
	return all
}

func baseName(name string) string {
	base := filepath.Base(name)
	if cut := strings.TrimSuffix(base, filepath.Ext(base)); cut != "" {
		return cut
	}
	return base
}
