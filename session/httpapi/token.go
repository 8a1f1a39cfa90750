package httpapi

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Token is a credential of a caller: a bearer token, or a client certificate. A caller may have several, for example
// during a rotation; all of them must have the same rights.
type Token struct {
	Name   string            // the actor of commits: 1 to 64 of A-Z a-z 0-9 _ -
	Digest [sha256.Size]byte // sha256 of a bearer token's text, which should be random: at least 128 bits
	// Certificate is the subject of a verified client certificate: uri: and a URI
	// among its alternative names, or cn: and its common name. Empty for a bearer token.
	Certificate string
	Scope       api.Scope
	Own         bool      // the caller reaches only sessions that it owns or has a grant for. Defaults to every session
	Tenant      string    // empty: the node's
	Expires     time.Time // zero: never

	line int // in the file, from 1
}

// ParseTokens reads tokens, one a line, with blanks between the fields:
//
//	NAME SCOPE CREDENTIAL [expires=TIME] [tenant=NAME] [own]
//
// The credential is the sha256 of a bearer token's text in hex, or uri:URI or
// cn:NAME of a client certificate. The time is in RFC 3339. With own the caller
// reaches only sessions that it owns or has a grant of. Empty lines and those that begin with # are comments. Errors name
// the line, and do not quote it.
func ParseTokens(r io.Reader) ([]Token, error) {
	var list []Token
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		t, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		t.line = n
		list = append(list, t)
	}
	return list, lines.Err()
}

func parseToken(fields []string) (Token, error) {
	if len(fields) < 3 {
		return Token{}, errors.New("want NAME SCOPE CREDENTIAL")
	}
	t := Token{Name: fields[0], Scope: api.Scope(fields[1])}
	if isCertificate(fields[2]) {
		t.Certificate = fields[2]
	} else {
		digest, err := hex.DecodeString(fields[2])
		if err != nil || len(digest) != len(t.Digest) {
			return t, errors.New("the third field is no sha256 in hex, nor uri:URI or cn:NAME of a certificate")
		}
		copy(t.Digest[:], digest)
	}
	seen := make(map[string]bool)
	for _, field := range fields[3:] {
		name, value, _ := strings.Cut(field, "=")
		if field == name+"=" {
			return t, errors.New("an option has nothing behind its =")
		}
		if seen[name] {
			return t, errors.New("an option occurs twice")
		}
		seen[name] = true
		if err := t.option(name, value); err != nil {
			return t, err
		}
	}
	return t, nil
}

// option sets the option NAME=VALUE.
func (t *Token) option(name, value string) (err error) {
	switch name {
	case "expires":
		if t.Expires, err = time.Parse(time.RFC3339, value); err != nil {
			return errors.New("expires is no time as 2027-01-31T12:00:00Z")
		}
	case "own":
		if t.Own = value == ""; !t.Own {
			return errors.New("own has no value")
		}
	case "tenant":
		t.Tenant = value
		return events.CheckToken("tenant", value)
	default:
		return errors.New("the options are expires=, tenant= and own")
	}
	return nil
}

func isCertificate(subject string) bool {
	kind, name, ok := strings.Cut(subject, ":")
	return ok && (kind == "uri" || kind == "cn") && name != ""
}

// checkTokens refuses invalid tokens, and a credential that two callers have.
func checkTokens(list []Token) error {
	byName, byCredential := make(map[string]*Token), make(map[string]*Token)
	var errs []error
	for i := range list {
		t := &list[i]
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: "+format, append([]any{t.where(i)}, args...)...))
		}
		if err := errors.Join(events.CheckCaller("name", t.Name), t.Scope.Check()); err != nil {
			wrong("%w", err)
		}
		credential := t.Certificate
		switch empty := t.Digest == [sha256.Size]byte{}; {
		case credential == "" && empty:
			wrong("has no digest")
		case t.Digest == sha256.Sum256(nil):
			wrong("the digest is that of an empty token, as of an unset variable: it would let in any caller")
		case credential == "":
			credential = string(t.Digest[:])
		case !empty || !isCertificate(credential):
			wrong("certificate: want uri:URI or cn:NAME, and no digest")
		}
		if known := byCredential[credential]; known != nil {
			wrong("the token, or the certificate, is that of caller %s too", known.Name)
		}
		if known := byName[t.Name]; known != nil && !known.sameCaller(t) {
			wrong("caller %s has another scope, tenant or own before", t.Name)
		}
		byName[t.Name], byCredential[credential] = t, t
	}
	return errors.Join(errs...)
}

// where is the token's line in its file, or its index in the list.
func (t *Token) where(i int) string {
	if t.line > 0 {
		return fmt.Sprintf("line %d", t.line)
	}
	return fmt.Sprintf("tokens[%d]", i)
}

func (t *Token) caller() Caller {
	return Caller{Caller: api.Caller{Name: t.Name, Reach: api.Reach{Scope: t.Scope, Own: t.Own}}, Tenant: t.Tenant}
}

// sameCaller reports whether two tokens are of the same caller, with the same rights.
func (t *Token) sameCaller(other *Token) bool {
	return t.Name == other.Name && t.Scope == other.Scope && t.Own == other.Own && t.Tenant == other.Tenant
}
