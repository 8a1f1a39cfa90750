package exchange

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"
	"golang.org/x/mod/sumdb/note"
)

// Labels of the signed form, and the media type of its payload.
const (
	labelClaims   = int64(15) // CWT claims
	claimIssuer   = int64(1)
	claimSubject  = int64(2)
	labelTrace    = int64(100) // a placeholder in the draft
	recordContent = "application/cbor"
)

// ErrKey is a key file that has no ed25519 key.
var ErrKey = errors.New("no ed25519 private key in PKCS 8 PEM: openssl genpkey -algorithm ed25519 -out FILE makes one; a node's node.key is read too")

// ParseKey reads an ed25519 private key in PKCS 8 PEM, or in note's form, as a node has it in the folder keys of its store.
func ParseKey(data []byte) (ed25519.PrivateKey, error) {
	if text := strings.TrimSpace(string(data)); strings.HasPrefix(text, "PRIVATE+KEY+") {
		return parseNoteKey(text)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, ErrKey
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, ErrKey
	}
	return private, nil
}

// parseNoteKey reads PRIVATE+KEY+<name>+<hash>+<base64 of the algorithm and the seed>.
func parseNoteKey(text string) (ed25519.PrivateKey, error) {
	if _, err := note.NewSigner(text); err != nil { // it checks the hash
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	fields := strings.SplitN(text, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, ErrKey
	}
	return ed25519.NewKeyFromSeed(seed[1:]), nil
}

// KeyID is the id of a public key in the protected header: the beginning of its SHA-256, in hex.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// SignRecord is a record in COSE_Sign1, with the record as CBOR inside.
func SignRecord(r *Record, issuer string, key ed25519.PrivateKey) ([]byte, error) {
	payload, err := RecordCBOR(r)
	if err != nil {
		return nil, err
	}
	signer, err := cose.NewSigner(cose.AlgorithmEdDSA, key)
	if err != nil {
		return nil, err
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, ErrKey
	}
	sum := sha256.Sum256(payload)
	trace := map[string]any{
		"session-id": string(r.Session.ID), "agent-vendor": recordVendor, "trace-format": recordFormat,
		"timestamp-start": r.Session.Start, "timestamp-end": r.Session.End, "content-hash": hex.EncodeToString(sum[:]),
	}
	msg := cose.NewSign1Message()
	msg.Headers.Protected = cose.ProtectedHeader{
		cose.HeaderLabelAlgorithm: cose.AlgorithmEdDSA, cose.HeaderLabelContentType: recordContent, cose.HeaderLabelKeyID: []byte(KeyID(public)),
		labelClaims: map[any]any{claimIssuer: issuer, claimSubject: string(r.Session.ID)},
	}
	msg.Headers.Unprotected = cose.UnprotectedHeader{labelTrace: trace}
	msg.Payload = payload
	if err := msg.Sign(rand.Reader, nil, signer); err != nil {
		return nil, err
	}
	return msg.MarshalCBOR()
}

// Limits of a record that is read, above those of records that this package writes.
const (
	maxRecordNesting = 64
	maxRecordItems   = math.MaxInt32
)

// RecordLine turns a record in CBOR, in COSE_Sign1 or alone, into its line of JSON, for readers of recordings. It does not
// verify a signature.
func RecordLine(data []byte) ([]byte, error) {
	if len(data) > 0 && data[0] == coseTag {
		msg := cose.NewSign1Message()
		if err := msg.UnmarshalCBOR(data); err != nil {
			return nil, fmt.Errorf("COSE_Sign1: %w", err)
		}
		if msg.Payload == nil {
			return nil, errors.New("COSE_Sign1: the payload is detached")
		}
		data = msg.Payload
	}
	mode, err := cbor.DecOptions{MaxNestedLevels: maxRecordNesting, MaxArrayElements: maxRecordItems, MaxMapPairs: maxRecordItems}.DecMode()
	if err != nil {
		return nil, err
	}
	var r Record
	if err := mode.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("CBOR: %w", err)
	}
	for i := range r.Session.Entries { // values of any type, which only the record's readers elsewhere need
		e := &r.Session.Entries[i]
		e.Input = nil
		e.Content = textKeys(e.Content)
		e.Data = textMap(e.Data)
	}
	return encode(&r)
}

// coseTag is the first byte of tag 18.
const coseTag = 0xd2

// textKeys replaces maps of CBOR by maps of JSON.
func textKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[fmt.Sprint(k)] = textKeys(x)
		}
		return out
	case map[string]any:
		return textMap(v)
	case []any:
		for i := range v {
			v[i] = textKeys(v[i])
		}
	}
	return v
}

func textMap(m map[string]any) map[string]any {
	for k := range m {
		m[k] = textKeys(m[k])
	}
	return m
}
