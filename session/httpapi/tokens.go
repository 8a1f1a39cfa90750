package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Tokens is an [Identifier] of bearer tokens and client certificates. The list can be replaced while the server runs.
//
// The certificate counts only for a request without an Authorization header.
type Tokens struct {
	list atomic.Pointer[[]Token]
	now  func() time.Time
}

// NewTokens makes Tokens of a list, which may be empty. It reports all errors of the list together.
func NewTokens(list []Token) (*Tokens, error) {
	t := &Tokens{now: time.Now}
	return t, t.Replace(list)
}

// Replace replaces the list atomically. An invalid list changes nothing.
func (t *Tokens) Replace(list []Token) error {
	if err := checkTokens(list); err != nil {
		return err
	}
	list = slices.Clone(list)
	t.list.Store(&list)
	return nil
}

// Has reports whether a token has this name, expired or not.
func (t *Tokens) Has(name string) bool {
	return slices.ContainsFunc(*t.list.Load(), func(k Token) bool { return k.Name == name })
}

// Errors of credentials, for the log.
var (
	errExpired     = errors.New("the token has expired")
	errCertificate = errors.New("the client certificate has expired")
	errAmbiguous   = errors.New("the client certificate is that of several callers")
)

// Identify implements [Identifier].
func (t *Tokens) Identify(r *http.Request) (Caller, error) {
	var found *Token
	if values := r.Header.Values("Authorization"); len(values) == 1 {
		found = bearer(*t.list.Load(), values[0])
	} else if len(values) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		var err error
		if found, err = t.certified(r.TLS.VerifiedChains[0][0]); err != nil {
			return Caller{}, err
		}
	}
	switch {
	case found == nil:
		return Caller{}, ErrNotMine
	case !found.Expires.IsZero() && !t.now().Before(found.Expires):
		return Caller{}, errExpired
	}
	return found.caller(), nil
}

// certified finds the token of a certificate that the TLS handshake verified. The handshake may be old, so certified
// checks the validity period again.
func (t *Tokens) certified(leaf *x509.Certificate) (found *Token, err error) {
	if now := t.now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return nil, errCertificate
	}
	subjects := []string{"cn:" + leaf.Subject.CommonName}
	for _, uri := range urisOf(leaf) {
		subjects = append(subjects, "uri:"+uri)
	}
	list := *t.list.Load()
	for i := range list {
		if list[i].Certificate == "" || !slices.Contains(subjects, list[i].Certificate) {
			continue
		}
		if found != nil && found.Name != list[i].Name {
			return nil, errAmbiguous
		}
		found = &list[i]
	}
	return found, nil
}

// urisOf lists the URIs among the alternative names of a certificate as they are there: a parsed [url.URL] has lost an empty fragment and
// the case of a scheme, so that another subject's URI would be taken for this one.
func urisOf(leaf *x509.Certificate) (list []string) {
	for i := range leaf.Extensions {
		var names []asn1.RawValue
		if !leaf.Extensions[i].Id.Equal(alternativeNames) {
			continue
		}
		if rest, err := asn1.Unmarshal(leaf.Extensions[i].Value, &names); err != nil || len(rest) > 0 {
			return nil // x509 parses no such certificate
		}
		for _, name := range names {
			if name.Class == asn1.ClassContextSpecific && name.Tag == uriName {
				list = append(list, string(name.Bytes))
			}
		}
	}
	return list
}

const uriName = 6 // of GeneralName, RFC 5280

var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17} //nolint:gochecknoglobals // read-only

// bearer finds the token of an Authorization header. It compares all tokens, so that its duration reveals nothing.
func bearer(list []Token, header string) (found *Token) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	digest := sha256.Sum256([]byte(text))
	for i := range list {
		if list[i].Certificate == "" && subtle.ConstantTimeCompare(digest[:], list[i].Digest[:]) == 1 {
			found = &list[i]
		}
	}
	return found
}
