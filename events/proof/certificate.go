package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
)

// ErrUnknownKey is a certificate that no known tenant's key signed, or a head whose certificate is missing.
var ErrUnknownKey = errors.New("not signed by a known key")

// ErrContradiction is a tombstone and a signed head in it that cannot be of one history.
var ErrContradiction = errors.New("two signed statements contradict each other")

// certificateTitle is the first line of a certificate. The tenant's key signs no other text.
const certificateTitle = "lash node certificate v1"

// algorithm is the byte before the key in note's form of an Ed25519 key.
const algorithm = 1

// Certificate says that a key is a node's of a tenant.
type Certificate struct {
	Tenant string // name of the tenant's key
	Name   string // of the node's key
	Key    ed25519.PublicKey
	From   events.Millis
	Until  events.Millis // exclusive
	Text   string        // the signed note
	Digest [sha256.Size]byte
}

// Certify makes the certificate of a node's key.
func Certify(tenant note.Signer, name string, key ed25519.PublicKey, from, until events.Millis) (*Certificate, error) {
	public, err := PublicKey(name, key)
	if err != nil {
		return nil, err
	}
	if until <= from {
		return nil, fmt.Errorf("certify %s: %w: valid until %d, from %d", name, events.ErrInvalid, until, from)
	}
	text := fmt.Sprintf("%s\n%s\n%s\n%d\n%d\n", certificateTitle, tenant.Name(), public, from, until)
	signed, err := note.Sign(&note.Note{Text: text}, tenant)
	if err != nil {
		return nil, fmt.Errorf("certify %s: %w", name, err)
	}
	if len(signed) > events.MaxCertificateBytes {
		return nil, fmt.Errorf("certify %s: %w: %d bytes, limit is %d", name, events.ErrTooLarge, len(signed), events.MaxCertificateBytes)
	}
	c, err := parse(text, string(signed))
	if err == nil && c.Tenant != tenant.Name() {
		err = fmt.Errorf("certify %s: %w: the name of the tenant", name, events.ErrInvalid)
	}
	return c, err
}

// PublicKey is a public key as text, in note's form: name, hash and key.
func PublicKey(name string, key ed25519.PublicKey) (string, error) {
	public, err := note.NewEd25519VerifierKey(name, key)
	if err == nil {
		_, err = note.NewVerifier(public) // checks the name
	}
	if err != nil {
		return "", fmt.Errorf("public key %q: %w", name, err)
	}
	return public, nil
}

// ReadCertificate checks that one of the tenants signed a certificate. Errors: [ErrUnknownKey],
// [events.ErrMalformed].
func ReadCertificate(text string, tenants []note.Verifier) (*Certificate, error) {
	if len(text) > events.MaxCertificateBytes {
		return nil, fmt.Errorf("certificate: %w: %d bytes, limit is %d", events.ErrTooLarge, len(text), events.MaxCertificateBytes)
	}
	signed, err := note.Open([]byte(text), note.VerifierList(tenants...))
	if unverified := (*note.UnverifiedNoteError)(nil); errors.As(err, &unverified) {
		return nil, fmt.Errorf("certificate: %w", ErrUnknownKey)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate: %w: %w", events.ErrMalformed, err)
	}
	c, err := parse(signed.Text, text)
	if err == nil && c.Tenant != signed.Sigs[0].Name {
		err = fmt.Errorf("certificate: %w: it names tenant %q, the key is of %q", events.ErrMalformed, c.Tenant, signed.Sigs[0].Name)
	}
	return c, err
}

// parse reads the text of a certificate, without its signature.
func parse(text, signed string) (*Certificate, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 6 || lines[0] != certificateTitle {
		return nil, fmt.Errorf("certificate: %w: not a certificate of a node's key", events.ErrMalformed)
	}
	name, key, err := publicKey(lines[2])
	if err != nil {
		return nil, fmt.Errorf("certificate: %w: %w", events.ErrMalformed, err)
	}
	from, fromErr := strconv.ParseInt(lines[3], 10, 64)
	until, untilErr := strconv.ParseInt(lines[4], 10, 64)
	if err := errors.Join(fromErr, untilErr); err != nil {
		return nil, fmt.Errorf("certificate: %w: %w", events.ErrMalformed, err)
	}
	return &Certificate{
		Tenant: lines[1], Name: name, Key: key, From: events.Millis(from), Until: events.Millis(until),
		Text: signed, Digest: sha256.Sum256([]byte(signed)),
	}, nil
}

// publicKey reads note's form of a public key.
func publicKey(text string) (name string, key ed25519.PublicKey, err error) {
	verifier, err := note.NewVerifier(text)
	if err != nil {
		return "", nil, err
	}
	_, encoded, _ := strings.Cut(strings.TrimPrefix(text, verifier.Name()+"+"), "+")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", nil, err
	}
	if len(data) != 1+ed25519.PublicKeySize || data[0] != algorithm {
		return "", nil, errors.New("not an Ed25519 key")
	}
	return verifier.Name(), ed25519.PublicKey(data[1:]), nil
}

// ValidAt reports whether a commit of that time may be signed with the key.
func (c *Certificate) ValidAt(at events.Millis) bool { return c.From <= at && at < c.Until }

// Origin is the first line of the checkpoints of a session.
func (c *Certificate) Origin(session events.SessionID) string {
	return c.Tenant + "/s/" + string(session)
}
