package index

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Pack has many rows by word: what is tested once for a row is tested once for the rows of the pack. A search finds in it
// the same rows as in the rows themselves. It has no last replies, usage and commits.
type Pack struct {
	rows     []packedRow
	settings [][]byte
	words    []byte   // decoded, each between separators
	lists    []byte   // encoded
	listAt   []uint32 // of each word, where its list is
}

type packedRow struct {
	session   events.SessionID
	revision  uint64
	state     uint64
	seq       events.Seq
	first, at events.Millis
	settings  int
}

// IsPack reports whether bytes are a pack, and no row.
func IsPack(data []byte) bool { return bytes.HasPrefix(data, []byte(packMagic)) }

// DecodePack reads a pack. It shares the memory of data, which must not change afterwards. Errors: [events.ErrMalformed],
// also of a pack of another version.
func DecodePack(data []byte) (*Pack, error) {
	body, ok := bytes.CutPrefix(data, []byte(packMagic))
	if !ok {
		return nil, fmt.Errorf("%w: not a pack of index rows", events.ErrMalformed)
	}
	if len(data) > maxPackBytes { // its words would take up to a hundred times as much
		return nil, fmt.Errorf("%w: pack of index rows: %d bytes, limit is %d", events.ErrMalformed, len(data), maxPackBytes)
	}
	var stored packed
	if err := events.DecodePayloadShared(body, &stored); err != nil {
		return nil, err
	}
	if stored.Version != Version {
		return nil, fmt.Errorf("%w: pack of index rows of version %d, this program has %d", events.ErrMalformed, stored.Version, Version)
	}
	p := &Pack{settings: stored.Settings, lists: stored.Lists}
	if err := p.decodeRows(stored.Sessions, stored.Numbers); err != nil {
		return nil, err
	}
	var err error
	if p.words, err = decode(make([]byte, 0, 2*len(stored.Words)), stored.Words); err != nil {
		return nil, err
	}
	return p, p.findLists(bytes.Count(p.words, []byte{separator}) - 1)
}

func (p *Pack) decodeRows(sessions, numbers []byte) error {
	count := bytes.Count(sessions, []byte{separator})
	if count > PackRows {
		return malformed("a pack has too many rows")
	}
	p.rows = make([]packedRow, 0, count)
	all := string(sessions) // one allocation for all sessions
	for at := 0; at < len(all); {
		end := at + bytes.IndexByte(sessions[at:], separator)
		if end < at {
			return malformed("a session does not end")
		}
		r := packedRow{session: events.SessionID(all[at:end])}
		var err error
		if numbers, err = r.decode(numbers); err != nil {
			return err
		}
		if r.settings >= max(len(p.settings), 1) {
			return malformed("settings are out of range")
		}
		p.rows, at = append(p.rows, r), end+1
	}
	return nil
}

// decode reads the numbers of a row, and returns those of the next ones.
func (r *packedRow) decode(numbers []byte) ([]byte, error) {
	var n [6]uint64
	for i := range n {
		var size int
		if n[i], size = binary.Uvarint(numbers); size <= 0 {
			return nil, malformed("a row has too few numbers")
		}
		numbers = numbers[size:]
		if i == 1 && n[1] == packedGone {
			break
		}
	}
	r.revision, r.state, r.seq, r.first, r.at, r.settings = n[0], n[1], events.Seq(n[2]), events.Millis(n[3]), events.Millis(n[4]), int(min(n[5], maxPackWords))
	return numbers, nil
}

// findLists finds where the list of each word is.
func (p *Pack) findLists(words int) error {
	p.listAt = make([]uint32, 0, words)
	for at := 0; at < len(p.lists); {
		n, size := binary.Uvarint(p.lists[at:])
		if size <= 0 || n>>1 > uint64(len(p.lists)-at-size) {
			return malformed("a list of rows is out of range")
		}
		p.listAt = append(p.listAt, uint32(at)) //nolint:gosec // far below
		at += size + int(n>>1)
	}
	if len(p.listAt) != words {
		return malformed("there is not one list for each word")
	}
	return nil
}

// Tested is a row of a pack that was tested.
type Tested struct {
	Session  events.SessionID
	Revision uint64
	May      bool // the session may match
	Gone     bool // the session has no row since the revision
}

// Test tests the rows of the pack, in their order. Errors: [events.ErrMalformed].
func (p *Pack) Test(plan *Plan) ([]Tested, error) {
	found, err := p.match(plan)
	if err != nil {
		return nil, err
	}
	list := make([]Tested, len(p.rows))
	for i := range p.rows {
		r, t := &p.rows[i], &list[i]
		t.Session, t.Revision, t.Gone = r.session, r.revision, r.state == packedGone
		t.May = found.has(i) && !t.Gone && plan.inTime(r.first, r.at) && (len(plan.q.Labels) == 0 || HasLabels(p.Row(i).Labels, plan.q.Labels))
	}
	return list, nil
}

// Sessions are the sessions of the rows, in their order.
func (p *Pack) Sessions() []events.SessionID {
	list := make([]events.SessionID, len(p.rows))
	for i := range p.rows {
		list[i] = p.rows[i].session
	}
	return list
}

// Row is a row of the pack, without its words.
func (p *Pack) Row(i int) *Row {
	r := &p.rows[i]
	out := &Row{Version: Version, Session: r.session, Seq: r.seq, First: r.first, At: r.at, Partial: r.state == packedPartial}
	var s packedSettings
	if r.settings < len(p.settings) && events.DecodePayload(p.settings[r.settings], &s) == nil {
		out.Labels, out.Model = s.Labels, s.Model
	}
	return out
}

// match finds the rows with the words of a plan.
func (p *Pack) match(plan *Plan) (rowSet, error) {
	all := newRowSet(len(p.rows))
	for i := range p.rows {
		all.add(i)
	}
	for _, list := range plan.names {
		if err := p.keep(all, nil, list); err != nil {
			return nil, err
		}
	}
	if len(plan.texts) == 0 {
		return all, nil
	}
	partial := newRowSet(len(p.rows))
	for i := range p.rows {
		if p.rows[i].state == packedPartial {
			partial.add(i)
		}
	}
	for _, needle := range plan.texts {
		if err := p.keep(all, partial, [][]byte{needle}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// keep keeps the rows of a set that have a word with one of the needles, and those of another set.
func (p *Pack) keep(set, also rowSet, needles [][]byte) error {
	have := newRowSet(len(p.rows))
	copy(have, also)
	for _, needle := range needles {
		if err := p.addWith(have, needle); err != nil {
			return err
		}
	}
	for i := range set {
		set[i] &= have[i]
	}
	return nil
}

// addWith adds the rows with a word that has a needle.
func (p *Pack) addWith(set rowSet, needle []byte) error {
	word := 0 // of the text from at on; at is a separator
	for at := 0; ; {
		hit := bytes.Index(p.words[at:], needle)
		if hit < 0 {
			return nil
		}
		hit += at
		if needle[0] != separator { // the separator before the word
			hit = bytes.LastIndexByte(p.words[:hit], separator)
		}
		word += bytes.Count(p.words[at:hit], []byte{separator})
		if err := p.addList(set, word); err != nil {
			return err
		}
		at, word = hit+1+bytes.IndexByte(p.words[hit+1:], separator), word+1
	}
}

func (p *Pack) addList(set rowSet, word int) error {
	list := p.lists[p.listAt[word]:]
	n, size := binary.Uvarint(list)
	return set.addList(list[size:size+int(n>>1)], n&1 != 0, len(p.rows))
}
