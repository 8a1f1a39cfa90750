package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// WordBytes limits a word, in bytes.
const WordBytes = 64

// words calls add with each word of a text, in order.
func words(text string, add func(word string)) {
	var word []byte
	full := false
	end := func() {
		if len(word) > 0 {
			add(string(word))
		}
		word, full = word[:0], false
	}
	for _, r := range text {
		switch {
		case unbroken(r):
			end()
			add(string(r))
		case !inWord(r):
			end()
		default:
			r = unicode.ToLower(r)
			if full = full || len(word)+utf8.RuneLen(r) > WordBytes; !full {
				word = utf8.AppendRune(word, r)
			}
		}
	}
	end()
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N) && r != utf8.RuneError
}

// unbroken reports whether a character is of a script without blanks between words.
func unbroken(r rune) bool {
	return r > 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Lower is a text as a search compares it: each character in lower case.
func Lower(text string) string {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		out = utf8.AppendRune(out, unicode.ToLower(r))
	}
	return string(out)
}

// Sets of words are encoded as follows: for each word in order, one byte whose upper half is the number of bytes that
// it shares with the word before, and whose lower half is the number of its other bytes. A half of 15 is followed by a
// uvarint of the number minus 15; those of the upper half are first. The other bytes follow.
const halfFull = 15

// encode encodes sorted words, up to a limit in bytes. whole is false where words were left out.
func encode(list []string, limit int) (out []byte, whole bool) {
	before := ""
	for _, w := range list {
		same := 0
		for same < len(before) && same < len(w) && before[same] == w[same] {
			same++
		}
		rest := len(w) - same
		if len(out)+rest+lengthBytes > limit {
			return out, false
		}
		out = append(out, byte(min(same, halfFull)<<4|min(rest, halfFull)))
		if same >= halfFull {
			out = binary.AppendUvarint(out, uint64(same-halfFull))
		}
		if rest >= halfFull {
			out = binary.AppendUvarint(out, uint64(rest-halfFull))
		}
		out = append(out, w[same:]...)
		before = w
	}
	return out, true
}

// lengthBytes is the most that the lengths of a word take.
const lengthBytes = 5

// separator stands between the words of a decoded set, before the first and after the last.
const separator = '\n'

// decode appends the words of a set to buf, each between separators. Errors: [events.ErrMalformed].
func decode(buf, set []byte) ([]byte, error) {
	buf = append(buf, separator)
	before := len(buf) // where the word before begins
	length := 0
	for at := 0; at < len(set); {
		same, rest := int(set[at]>>4), int(set[at]&halfFull)
		at++
		for _, n := range []*int{&same, &rest} {
			if *n < halfFull {
				continue
			}
			more, size := binary.Uvarint(set[at:])
			if size <= 0 || more > maxWord {
				return nil, malformed("a length is out of range")
			}
			*n, at = halfFull+int(more), at+size
		}
		if same > length || rest > len(set)-at || same+rest > maxWord {
			return nil, malformed("a word is out of range")
		}
		start := len(buf)
		buf = append(buf, buf[before:before+same]...)
		buf = append(buf, set[at:at+rest]...)
		buf = append(buf, separator)
		at, before, length = at+rest, start, same+rest
	}
	return buf, nil
}

// maxWord limits an encoded word: a mark, and a name of at most [events.MaxIDBytes], or a word.
const maxWord = events.MaxIDBytes + 16

func malformed(problem string) error {
	return fmt.Errorf("%w: words: %s", events.ErrMalformed, problem)
}

// split divides a decoded set into its words.
func split(decoded []byte) []string {
	fields := bytes.FieldsFunc(decoded, func(r rune) bool { return r == separator })
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = string(f)
	}
	return list
}

// merged is a set with more words, sorted.
func merged(set []byte, more map[string]bool) ([]string, error) {
	decoded, err := decode(nil, set)
	if err != nil {
		return nil, err
	}
	list := split(decoded)
	for w := range more {
		list = append(list, w)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
