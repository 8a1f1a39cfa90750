package events

import "fmt"

// Mark follows a history for its mark "encrypted from here on": the first commit with a ciphertext. A writer without keys cannot
// make the ciphertexts of later places, so a plain commit after the mark is forged. The zero value has seen no commit.
type Mark struct {
	From  Seq // of the first commit with a ciphertext; 0: none yet
	Plain Seq // of the last plain commit before it; 0: none
}

// Next takes the next commit of the history. Error: [ErrMalformed] for a plain one after the mark, or with ciphertexts beside
// plain payloads.
func (m *Mark) Next(e Entry) error {
	if m.From == 0 && (e.Commit.HasCiphertext() || e.Commit.EncryptedDigest != nil) {
		m.From = e.Seq
	}
	switch {
	case !e.Commit.IsPlain():
		return nil
	case m.From == 0:
		m.Plain = e.Seq
		return nil
	}
	return PlainAfterMark(e, m.From)
}

// PlainAfterMark is [ErrMalformed] for a plain commit of a history that is encrypted from a sequence on.
func PlainAfterMark(e Entry, from Seq) error {
	return fmt.Errorf("%w: commit %d, %s, has plain payloads, and session %s is encrypted from commit %d on: a writer without its key made it",
		ErrMalformed, e.Seq, e.Commit.ID, e.Commit.Session, from)
}

// IsPlain reports whether the commit has a payload, or the digest of its request, that a writer with keys would have encrypted.
// Signed heads and redacted payloads are none.
func (c *Commit) IsPlain() bool {
	if c.Digest != "" && c.EncryptedDigest == nil {
		return true
	}
	for i := range c.Events {
		if ev := &c.Events[i]; ev.Encrypted == nil && ev.Redacted == nil && ev.Kind != KindAuditHeadSigned {
			return true
		}
	}
	return false
}
