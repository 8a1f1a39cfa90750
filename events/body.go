package events

import "fmt"

// BodyStored records that a body was stored outside the log for this session, so that messages may refer to it.
// It does not change the conversation.
type BodyStored struct {
	Blob BlobRef `msgpack:"b"`
	By   string  `msgpack:"w,omitempty"` // caller that stored it
}

// Validate implements [Payload].
func (p *BodyStored) Validate() error {
	if p.Blob.Size < 1 || p.Blob.Size > MaxBlobBytes {
		return invalid("blob.size", fmt.Sprintf("is %d, want 1 to %d", p.Blob.Size, MaxBlobBytes))
	}
	if err := CheckDigest("blob.digest", p.Blob.Digest); err != nil {
		return err
	}
	return checkID("by", p.By, false)
}

// digestDigits is the length of a digest: a SHA-256 in hex digits.
const digestDigits = 64

// CheckDigest refuses a malformed digest. The error is a [*FieldError] that is [ErrInvalid].
func CheckDigest(field, digest string) error {
	hex := len(digest) == digestDigits
	for i := 0; hex && i < len(digest); i++ {
		c := digest[i]
		hex = c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
	}
	if !hex {
		return invalid(field, fmt.Sprintf("is no digest: want %d digits of 0 to 9 and a to f", digestDigits))
	}
	return nil
}
