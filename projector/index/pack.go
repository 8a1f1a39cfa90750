package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/lash-go/lash/events"
)

// packMagic begins a pack. It is no encoded row.
const packMagic = "LASHPACK1"

// PackRows limits the rows of a pack.
const PackRows = 1536

// packed is the encoding of a [Pack].
type packed struct {
	Version  int64    `msgpack:"v"`
	Sessions []byte   `msgpack:"s"` // each followed by a separator
	Numbers  []byte   `msgpack:"n"` // uvarints of each row: revision, its state, and unless it is gone: sequence, first and last time, place of its settings
	Settings [][]byte `msgpack:"b"` // encoded [packedSettings]; rows share equal ones
	Words    []byte   `msgpack:"w"` // all words of the rows, as in a row
	Lists    []byte   `msgpack:"l"` // of each word, in order: the rows that have it, see [appendList]
}

// packedSettings are the settings of a row.
type packedSettings struct {
	Labels map[string]string `msgpack:"b,omitempty"`
	Model  string            `msgpack:"m,omitempty"`
}

// States of a row in a pack.
const (
	packedWhole   = iota
	packedPartial // see [Row.Partial]
	packedGone    // the session has no row
)

// PackBuilder makes a pack. It is not safe for concurrent use.
type PackBuilder struct {
	sessions, numbers []byte
	settings          [][]byte
	settingsAt        map[string]int
	lists             map[string]*packList
	count             int
	buf               []byte
}

// packList are the rows of a word, as uvarints of the differences.
type packList struct {
	rows []byte
	next int // the least row that may follow
	n    int
}

// NewPackBuilder starts an empty pack.
func NewPackBuilder() *PackBuilder {
	return &PackBuilder{settingsAt: make(map[string]int), lists: make(map[string]*packList)}
}

// Add adds a row with its revision, which names one write of a row: the larger of two of a session counts. Errors:
// [events.ErrMalformed], and the pack has no part of the row.
func (b *PackBuilder) Add(r *Row, revision uint64) error {
	var err error
	if b.buf, err = decode(b.buf[:0], r.Words); err != nil {
		return err
	}
	settings, err := events.EncodePayload(packedSettings{r.Labels, r.Model})
	if err != nil {
		return err
	}
	place, ok := b.settingsAt[string(settings)]
	if !ok {
		place = len(b.settings)
		b.settings, b.settingsAt[string(settings)] = append(b.settings, settings), place
	}
	for word := range bytes.SplitSeq(bytes.Trim(b.buf, "\n"), []byte{separator}) {
		if len(word) > 0 {
			b.word(word)
		}
	}
	state := uint64(packedWhole)
	if r.Partial {
		state = packedPartial
	}
	b.row(r.Session, revision, state, uint64(r.Seq), uint64(r.First), uint64(r.At), uint64(place))
	return nil
}

// Gone notes that a session has no row since a revision.
func (b *PackBuilder) Gone(session events.SessionID, revision uint64) {
	b.row(session, revision, packedGone)
}

func (b *PackBuilder) row(session events.SessionID, numbers ...uint64) {
	b.sessions = append(append(b.sessions, session...), separator)
	for _, n := range numbers {
		b.numbers = binary.AppendUvarint(b.numbers, n)
	}
	b.count++
}

func (b *PackBuilder) word(word []byte) {
	list := b.lists[string(word)]
	if list == nil {
		list = &packList{}
		b.lists[string(word)] = list
	}
	if list.next > b.count {
		return // a damaged row has a word twice
	}
	list.rows = binary.AppendUvarint(list.rows, uint64(b.count-list.next))
	list.next, list.n = b.count+1, list.n+1
}

// Encode is the pack.
func (b *PackBuilder) Encode() ([]byte, error) {
	words := slices.Sorted(maps.Keys(b.lists))
	set, whole := encode(words, maxPackWords)
	if !whole {
		return nil, fmt.Errorf("%w: the words of %d rows are too many for a pack", events.ErrTooLarge, b.count)
	}
	p := packed{Version: Version, Sessions: b.sessions, Numbers: b.numbers, Settings: b.settings, Words: set}
	for _, w := range words {
		p.Lists = appendList(p.Lists, b.lists[w], b.count)
	}
	data, err := events.EncodePayload(&p)
	return append([]byte(packMagic), data...), err
}

// maxPackWords limits the encoded words of a pack, in bytes: more than all the rows that a packer reads for one can have.
const maxPackWords = 32 << 20

// maxPackBytes limits the pack that is decoded, in bytes. A message of the table has less.
const maxPackBytes = 1 << 20

// appendList appends the rows of a word: the uvarint of twice the length of what follows, and then either the
// differences, or, where that is shorter, one bit for each row of the pack, and the uvarint has 1 more.
func appendList(out []byte, list *packList, count int) []byte {
	if size := (count + 7) / 8; size < len(list.rows) {
		bitmap := make([]byte, size)
		_ = eachDifference(list.rows, count, func(row int) { bitmap[row/8] |= 1 << (row % 8) })
		return append(binary.AppendUvarint(out, uint64(size)<<1|1), bitmap...)
	}
	return append(binary.AppendUvarint(out, uint64(len(list.rows))<<1), list.rows...)
}

// eachDifference calls row with the rows of differences.
func eachDifference(list []byte, count int, row func(int)) error {
	for next := 0; len(list) > 0; {
		n, size := binary.Uvarint(list)
		if size <= 0 || n >= uint64(count-next) {
			return malformed("a row is out of range")
		}
		row(next + int(n))
		next, list = next+int(n)+1, list[size:]
	}
	return nil
}

// rowSet is a set of rows of a pack.
type rowSet []uint64

func newRowSet(count int) rowSet { return make(rowSet, (count+63)/64) }

func (s rowSet) add(row int)      { s[row/64] |= 1 << (row % 64) }
func (s rowSet) has(row int) bool { return s[row/64]>>(row%64)&1 != 0 }

// addList adds the rows of an encoded list. Errors: [events.ErrMalformed].
func (s rowSet) addList(list []byte, bitmap bool, count int) error {
	if !bitmap {
		return eachDifference(list, count, s.add)
	}
	if len(list) != (count+7)/8 {
		return malformed("a list of rows has another length")
	}
	for i, b := range list {
		for ; b != 0; b &= b - 1 {
			row := 8*i + bits.TrailingZeros8(b)
			if row >= count {
				return malformed("a row is out of range")
			}
			s.add(row)
		}
	}
	return nil
}
