package proof

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
)

const titleRedaction = "lash redaction v1"

// RedactionRecord is what a node signs about payloads that it replaces by digests in a stored history.
type RedactionRecord struct {
	Session events.SessionID
	Signed  events.Millis // time of the signature, in the validity of the certificate
	At      events.Millis // time of the redaction
	By      string        // the caller
	Reason  string
	Size    events.Seq // number of commits of the history
	Root    Hash       // of all of them, the same before and after
	What    []string   // kinds, patterns of kinds, and ids of events, as they were requested
}

// SignRedaction returns the record as a signed note.
func (s *Signer) SignRedaction(r *RedactionRecord) (string, error) {
	lines := []string{strconv.FormatInt(int64(r.At), 10), quote(r.By), quote(r.Reason), strconv.FormatUint(uint64(r.Size), 10), rootText(&r.Root)}
	for _, what := range r.What {
		lines = append(lines, quote(what))
	}
	return s.statement(titleRedaction, r.Session, r.Signed, lines)
}

// ReadRedaction reads a record from a note, and checks its signatures. Errors: [ErrUnknownKey], [events.ErrMalformed].
func ReadRedaction(text []byte, tenants []note.Verifier) (*RedactionRecord, *Certificate, error) {
	st, err := readStatement(titleRedaction, text, tenants)
	if err != nil {
		return nil, nil, fmt.Errorf("redaction: %w", err)
	}
	l := st.lines
	if len(l) < 6 {
		return nil, nil, fmt.Errorf("redaction: %w: it has %d lines", events.ErrMalformed, len(l))
	}
	r := &RedactionRecord{Session: st.session, Signed: st.signed, What: make([]string, len(l)-5)}
	at, atErr := strconv.ParseInt(l[0], 10, 64)
	size, sizeErr := strconv.ParseUint(l[3], 10, 64)
	root, rootErr := readRoot(l[4])
	if rootErr == nil && root == nil {
		rootErr = errors.New("it has no root")
	}
	errs := []error{atErr, sizeErr, rootErr, unquote(l[1], &r.By), unquote(l[2], &r.Reason)}
	for i := range r.What {
		errs = append(errs, unquote(l[5+i], &r.What[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("redaction: %w: %w", events.ErrMalformed, err)
	}
	r.At, r.Size, r.Root = events.Millis(at), events.Seq(size), *root
	return r, st.cert, nil
}
