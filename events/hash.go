package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"
)

// SaltBytes is the size of a commit's salt, and of the salt of one event.
const SaltBytes = 16

// DigestBytes is the size of a digest that replaces a payload, and of a hash of the tree.
const DigestBytes = sha256.Size

// signatureBytes is the size of a head's signature, which ends its payload.
const signatureBytes = 64

// signatureHeader begins the value of a head's signature.
const signatureHeader = "\xc4\x40"

// CommitHash is the hash of a commit in the session's tree: RFC 6962's hash of a leaf, of the commit's leaf data as
// FORMAT.md defines them. data is the stored encoding. A commit and its redacted forms have the same hash.
func CommitHash(data []byte) [DigestBytes]byte { return partsOf(data).leafHash(data) }

// Hash is the CommitHash of the entry's stored encoding, or of the encoding of its commit where it has none, and the size of that in bytes.
// For entries of [DecodeEntry] the encoding is not read again. Errors: those of [HashOf].
func (e *Entry) Hash() (hash [DigestBytes]byte, size int, err error) {
	switch {
	case len(e.Data) == 0:
		return HashOf(e.Commit)
	case e.parts != nil && e.parts.of == unsafe.SliceData(e.Data) && e.parts.size == len(e.Data):
		return e.parts.leafHash(e.Data), len(e.Data), nil
	}
	return CommitHash(e.Data), len(e.Data), nil
}

// HashOf is the CommitHash of the encoding of c, and the size of that in bytes. The encoding is not checked otherwise. Errors: those of
// [Encode].
func HashOf(c *Commit) (hash [DigestBytes]byte, size int, err error) {
	w := newWriter()
	defer w.release()
	w.commit(c)
	if limit := c.limit(); len(w.b) > limit {
		w.setErr(tooLarge("commit", len(w.b), limit))
	}
	if w.err != nil {
		return hash, 0, fmt.Errorf("leaf of commit: %w", w.err)
	}
	return CommitHash(w.b), len(w.b), nil
}

// leafHash is the hash of the leaf data.
func (p *commitParts) leafHash(data []byte) [DigestBytes]byte {
	w := newWriter()
	w.b = append(w.b, 0) // of leaves
	if p.loose {
		w.b = append(w.b, data...)
	} else {
		p.write(w, data, nil)
	}
	sum := sha256.Sum256(w.b)
	w.release()
	return sum
}

// digest is the digest that replaces the payload of an event: of its salt and of the payload, without the signature
// of a head. The memory after the end of w is overwritten.
func (p *commitParts) digest(w *writer, i int, payload []byte) [DigestBytes]byte {
	if n := len(payload) - signatureBytes; p.events[i].kind == KindAuditHeadSigned && n > 2 && string(payload[n-2:n]) == signatureHeader {
		payload = payload[:n]
	}
	if !p.salted {
		return sha256.Sum256(payload)
	}
	end := len(w.b)
	salt := p.salt(i)
	w.b = append(append(w.b, salt[:]...), payload...)
	sum := sha256.Sum256(w.b[end:])
	w.b = w.b[:end]
	return sum
}

// salt is the salt of an event with a payload.
func (p *commitParts) salt(i int) [SaltBytes]byte {
	if p.kept == len(p.events) {
		return saltAt(p.salts, i)
	}
	at := 0
	for k := range i {
		if !p.events[k].redacted {
			at += SaltBytes
		}
	}
	return [SaltBytes]byte([]byte(p.salts[at : at+SaltBytes]))
}

// saltedPrefix begins the digest of a request that is salted.
const saltedPrefix = "salted:"

// requestIndex is the index, in the place of an event's, of the salt of a request's digest. No commit has an event with it.
const requestIndex = 0xffff

// SaltDigest is the digest of a request as a commit with a salt has it. Once payloads of the commit are redacted, its salt is
// gone, and the digest tells nothing of a request that could be guessed.
func SaltDigest(salt []byte, digest string) string {
	own := saltAt(salt, requestIndex)
	sum := sha256.Sum256(append(own[:], digest...))
	return saltedPrefix + hex.EncodeToString(sum[:SaltBytes])
}

// IsSalted reports whether the digest of a request is salted, as lash writes it.
func IsSalted(digest string) bool { return strings.HasPrefix(digest, saltedPrefix) }

// saltAt is the salt at an index, of a commit that has all of its payloads.
func saltAt[T string | []byte](salt T, index int) [SaltBytes]byte {
	var of [SaltBytes + 2]byte
	copy(of[:], salt)
	binary.BigEndian.PutUint16(of[SaltBytes:], uint16(index))
	sum := sha256.Sum256(of[:])
	return [SaltBytes]byte(sum[:])
}
