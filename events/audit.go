package events

import (
	"fmt"
	"math/bits"
)

// Limits of a head.
const (
	// MaxHeadLeaves limits the hashes of single commits in a head.
	MaxHeadLeaves = 256
	// MaxCertificateBytes limits a certificate of a node's key.
	MaxCertificateBytes = 4096
)

// AuditHeadSigned is a signed head of the session's tree: the node's signature of all commits up to the one with this
// event, that one included, less the signature itself. It is the last event of its commit.
//
// Leaves makes a head say which commits it covers, so that a changed commit is found by its sequence. The first of
// Leaves is the commit of the head before, which its own head cannot name.
type AuditHeadSigned struct {
	Key         []byte `msgpack:"k"`           // sha256 of the certificate of the signing key
	Certificate string `msgpack:"c,omitempty"` // that certificate, a signed note; missing where an earlier head has it
	Before      int64  `msgpack:"b,omitempty"` // number of commits that Edge covers
	Edge        []byte `msgpack:"h,omitempty"` // hashes of the largest complete subtrees of those, from the left, 32 bytes each
	Leaves      []byte `msgpack:"l,omitempty"` // hashes of the commits after those and before this one, 32 bytes each
	Signature   []byte `msgpack:"g"`           // Ed25519, 64 bytes, of the checkpoint of the tree
}

// Validate implements [Payload].
func (p *AuditHeadSigned) Validate() error {
	switch {
	case len(p.Key) != DigestBytes:
		return wrongSize("key", len(p.Key), DigestBytes)
	case len(p.Certificate) > MaxCertificateBytes:
		return tooLarge("certificate", len(p.Certificate), MaxCertificateBytes)
	case p.Before < 0:
		return invalid("before", fmt.Sprintf("is %d, want at least 0", p.Before))
	case len(p.Edge) != DigestBytes*bits.OnesCount64(uint64(p.Before)):
		return wrongSize("edge", len(p.Edge), DigestBytes*bits.OnesCount64(uint64(p.Before)))
	case len(p.Leaves)%DigestBytes != 0:
		return invalid("leaves", fmt.Sprintf("has %d bytes, want a multiple of %d", len(p.Leaves), DigestBytes))
	case len(p.Leaves) > MaxHeadLeaves*DigestBytes:
		return tooLarge("leaves", len(p.Leaves), MaxHeadLeaves*DigestBytes)
	case len(p.Signature) != signatureBytes:
		return wrongSize("signature", len(p.Signature), signatureBytes)
	}
	return nil
}

func wrongSize(field string, size, want int) error {
	return invalid(field, fmt.Sprintf("has %d bytes, want %d", size, want))
}
