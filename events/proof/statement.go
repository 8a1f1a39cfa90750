package proof

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
)

// Titles are the first lines of statements. No statement is a checkpoint, whose second line is a number.
const titleTombstone = "lash tombstone v1"

// noRoot stands for the root of a history that cannot be read to its end.
const noRoot = "-"

// Tombstone is what a node signs about a history that it erases.
type Tombstone struct {
	Session   events.SessionID
	Signed    events.Millis // time of the signature, in the validity of the certificate
	At        events.Millis // time of the erasure
	Retention bool          // the session's retention had ended; otherwise a caller requested the erasure
	By        string        // the caller; "retention" for that
	Reason    string
	Size      events.Seq // number of commits of the history
	Root      *Hash      // of all of them; nil: they could not be read to the end
	Head      string     // note of the last signed head; empty: none
}

// SignTombstone returns the tombstone as a signed note.
func (s *Signer) SignTombstone(t *Tombstone) (string, error) {
	origin := "retention"
	if !t.Retention {
		origin = "request"
	}
	return s.statement(titleTombstone, t.Session, t.Signed, []string{
		strconv.FormatInt(int64(t.At), 10), origin, quote(t.By), quote(t.Reason), strconv.FormatUint(uint64(t.Size), 10), rootText(t.Root), quote(t.Head),
	})
}

// ReadTombstone reads a tombstone from a note, and checks its signatures. [Tombstone.LastHead] checks the head in it.
// Errors: [ErrUnknownKey], [events.ErrMalformed].
func ReadTombstone(text []byte, tenants []note.Verifier) (*Tombstone, *Certificate, error) {
	st, err := readStatement(titleTombstone, text, tenants)
	if err != nil {
		return nil, nil, fmt.Errorf("tombstone: %w", err)
	}
	t, err := tombstoneOf(st)
	if err != nil {
		return nil, nil, fmt.Errorf("tombstone: %w", err)
	}
	return t, st.cert, nil
}

func tombstoneOf(st *statement) (*Tombstone, error) {
	l := st.lines
	if len(l) != 7 || l[1] != "retention" && l[1] != "request" {
		return nil, fmt.Errorf("%w: its lines are not those of a tombstone", events.ErrMalformed)
	}
	t := &Tombstone{Session: st.session, Signed: st.signed, Retention: l[1] == "retention"}
	at, atErr := strconv.ParseInt(l[0], 10, 64)
	size, sizeErr := strconv.ParseUint(l[4], 10, 64)
	var rootErr error
	t.At, t.Size = events.Millis(at), events.Seq(size)
	t.Root, rootErr = readRoot(l[5])
	if err := errors.Join(atErr, sizeErr, rootErr, unquote(l[2], &t.By), unquote(l[3], &t.Reason), unquote(l[6], &t.Head)); err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrMalformed, err)
	}
	return t, nil
}

// LastHead is the last signed head of the erased history, as the history had it: it may be of another tenant, or in a form that
// no node writes. nil: the history had none. Errors: [ErrUnknownKey] and [events.ErrMalformed] say nothing about the
// tombstone; [ErrContradiction] is a head that verifies, and is of another history.
func (t *Tombstone) LastHead(tenants []note.Verifier) (*Head, error) {
	if t.Head == "" {
		return nil, nil //nolint:nilnil // a history without heads
	}
	h, _, err := ReadHead([]byte(t.Head), tenants)
	switch {
	case err != nil:
		return nil, fmt.Errorf("last head of the erased history: %w", err)
	case h.Session != t.Session || h.Size > t.Size || h.Size == t.Size && t.Root != nil && h.Root != *t.Root:
		return nil, fmt.Errorf("tombstone: %w: its last head is of another history", ErrContradiction)
	}
	return h, nil
}

// statement is a note about a session that a node signs, besides heads.
type statement struct {
	session events.SessionID
	signed  events.Millis
	cert    *Certificate
	lines   []string
}

// statement signs a note: the title, the origin, the time of the signature, then lines without line ends.
func (s *Signer) statement(title string, session events.SessionID, signed events.Millis, lines []string) (string, error) {
	origin := s.cert.Origin(session)
	text := strings.Join(append([]string{title, origin, strconv.FormatInt(int64(signed), 10)}, lines...), "\n") + "\n"
	signature, err := s.key.Sign(nil, []byte(text), crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("sign %s of %s: %w", title, session, err)
	}
	return signedNote(s.cert, origin, text, signature), nil
}

// readStatement checks the signature of a statement, its certificate, and the time of the signature.
func readStatement(title string, text []byte, tenants []note.Verifier) (*statement, error) {
	lines := strings.Split(string(text), "\n")
	if len(lines) < 4 || lines[0] != title {
		return nil, fmt.Errorf("%w: its first line is not %q", events.ErrMalformed, title)
	}
	session, c, err := signedBy(text, lines[1], tenants)
	if err != nil {
		return nil, err
	}
	signed, err := strconv.ParseInt(lines[2], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: time of the signature: %w", events.ErrMalformed, err)
	}
	if !c.ValidAt(events.Millis(signed)) {
		return nil, fmt.Errorf("%w: at the time of the signature, %s, the certificate of key %s is not valid", ErrUnknownKey, timeOf(events.Millis(signed)), c.Name)
	}
	end := strings.LastIndex(string(text), "\n\n") // what the signature is of ends here, as in package note
	return &statement{session, events.Millis(signed), c, strings.Split(string(text[:end]), "\n")[3:]}, nil
}

func rootText(root *Hash) string {
	if root == nil {
		return noRoot
	}
	return base64.StdEncoding.EncodeToString(root[:])
}

func readRoot(text string) (*Hash, error) {
	if text == noRoot {
		return nil, nil //nolint:nilnil // the history could not be read
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(data) != hashBytes {
		err = fmt.Errorf("a root of %d bytes, want %d", len(data), hashBytes)
	}
	if err != nil {
		return nil, err
	}
	return new(Hash(data)), nil
}

// quote is a text as a JSON string, which has no line end.
func quote(text string) string {
	data, _ := json.Marshal(text) // never fails for a string
	return string(data)
}

func unquote(text string, into *string) error { return json.Unmarshal([]byte(text), into) }
