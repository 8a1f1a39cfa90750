package proof

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
)

// Head is a signed head outside of its history.
type Head struct {
	Session events.SessionID
	Size    events.Seq // number of commits
	Root    Hash
	Origin  string
	Note    string // the checkpoint as a signed note
}

// checkpoint is the text that a head's signature is of.
func checkpoint(origin string, size int64, root Hash) string {
	return origin + "\n" + strconv.FormatInt(size, 10) + "\n" + base64.StdEncoding.EncodeToString(root[:]) + "\n"
}

// certificateKind begins the key hash of the line that carries the certificate in a head's note. It is one of note's
// own algorithms, so that other programs skip the line.
const certificateKind = "\xfflash-certificate-v1"

// signedNote is the checkpoint with the signature of a node's key, and its certificate in a signature line of the
// tenant's name.
func signedNote(c *Certificate, origin, text string, signature []byte) string {
	hash := keyHash(origin, append([]byte{algorithm}, c.Key...))
	return text + "\n" + noteLine(origin, hash, signature) + noteLine(c.Tenant, keyHash(c.Tenant, []byte(certificateKind)), []byte(c.Text))
}

func keyHash(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:])
}

func noteLine(name string, hash uint32, signature []byte) string {
	data := append(binary.BigEndian.AppendUint32(nil, hash), signature...)
	return "— " + name + " " + base64.StdEncoding.EncodeToString(data) + "\n"
}

// ReadHead reads a head from a note, as [Signed.Head] makes it, also where witnesses cosigned it. One of the tenants must have signed
// its certificate. Errors: [ErrUnknownKey], [events.ErrMalformed].
func ReadHead(text []byte, tenants []note.Verifier) (*Head, *Certificate, error) {
	h, err := parseCheckpoint(text)
	if err != nil {
		return nil, nil, err
	}
	var c *Certificate
	if h.Session, c, err = signedBy(text, h.Origin, tenants); err != nil {
		return nil, nil, fmt.Errorf("head: %w", err)
	}
	return h, c, nil
}

// signedBy checks that the key of a node signed a note about a session, and that one of the tenants certified it.
func signedBy(text []byte, origin string, tenants []note.Verifier) (events.SessionID, *Certificate, error) {
	c, err := carried(text, tenants)
	if err != nil {
		return "", nil, err
	}
	name, ok := strings.CutPrefix(origin, c.Tenant+"/s/")
	if !ok {
		return "", nil, fmt.Errorf("%w: origin %q is not of tenant %s", events.ErrMalformed, origin, c.Tenant)
	}
	public, err := PublicKey(origin, c.Key)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", events.ErrMalformed, err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", events.ErrMalformed, err)
	}
	if _, err := note.Open(text, note.VerifierList(verifier)); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrUnknownKey, err)
	}
	return events.SessionID(name), c, nil
}

// HeadOf is the head of a commit as the commit says, without any check. It is nil without a head, and where no note can
// be made of it.
func HeadOf(e events.Entry) *Head {
	head, ok := e.Commit.Events[len(e.Commit.Events)-1].Payload.(*events.AuditHeadSigned)
	if !ok {
		return nil
	}
	tree := of(head)
	text, _, signed := strings.Cut(head.Certificate, "\n\n")
	c, err := parse(text+"\n", head.Certificate)
	if err != nil || !signed || tree.Check() != nil {
		return nil
	}
	h := &Head{Session: e.Commit.Session, Size: events.Seq(tree.Size() + 1), Root: tree.Root(events.CommitHash(e.Data)), Origin: c.Origin(e.Commit.Session)}
	h.Note = signedNote(c, h.Origin, checkpoint(h.Origin, int64(h.Size), h.Root), head.Signature)
	return h
}

// parseCheckpoint reads the three lines of a checkpoint.
func parseCheckpoint(text []byte) (*Head, error) {
	lines := strings.SplitN(string(text), "\n", 4)
	if len(lines) < 4 {
		return nil, fmt.Errorf("head: %w: not a checkpoint", events.ErrMalformed)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	if err = errors.Join(err, rootErr); err == nil && (size < 1 || len(root) != hashBytes) {
		err = errors.New("its size or its root is none")
	}
	if err != nil {
		return nil, fmt.Errorf("head: %w: not a checkpoint: %w", events.ErrMalformed, err)
	}
	return &Head{Size: events.Seq(size), Root: Hash(root), Origin: lines[0], Note: string(text)}, nil
}

// carried finds the certificate in a head's note.
func carried(text []byte, tenants []note.Verifier) (*Certificate, error) {
	_, lines, _ := strings.Cut(string(text), "\n\n")
	for line := range strings.Lines(lines) {
		name, encoded, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "— ")), " ")
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(data) < 4 || binary.BigEndian.Uint32(data) != keyHash(name, []byte(certificateKind)) {
			continue
		}
		return ReadCertificate(string(data[4:]), tenants)
	}
	return nil, fmt.Errorf("%w: it has no certificate", ErrUnknownKey)
}
