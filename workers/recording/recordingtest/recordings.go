package recordingtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"

	"github.com/lash-go/lash/workers/recording"
)

//go:embed demo.jsonl
var demo []byte

//go:embed written.jsonl
var written []byte

// Demo is a short chat with tools.
func Demo() []byte { return bytes.Clone(demo) }

// Written are chats and sessions of pi whose entries are in an unusual order. The id of each says which.
func Written() []byte { return bytes.Clone(written) }

// Each has a short recording of each kind that a format can have. The id of each is the format, and the kind's name.
func Each(format recording.Format) []byte {
	var all []byte
	for _, k := range Kinds() {
		if k.has(format) && k.Name != thousand {
			all = append(all, k.recording(format)...)
		}
	}
	return all
}

// Large is a session of pi with a thousand entries and more.
func Large() []byte {
	list := Kinds()
	return list[slices.IndexFunc(list, func(k Kind) bool { return k.Name == thousand })].recording(recording.FormatPi)
}

// Make makes a recording of at least n messages of a chat, or lines of a session of pi. The seed draws the kinds and
// the order of their entries, and everything else: the same arguments give the same bytes.
func Make(seed uint64, format recording.Format, n int) []byte {
	w := newWriter(seed, format)
	w.fill(n)
	return w.file(fmt.Sprint(seed))
}

// Read parses recordings of this package.
func Read(files ...[]byte) []recording.Conversation {
	all, err := recording.Read("sample.jsonl", bytes.NewReader(bytes.Join(files, nil)))
	if err != nil {
		panic("recordingtest: " + err.Error())
	}
	return all
}
