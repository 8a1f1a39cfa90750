package httpapi

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Token is one that requests may bear. Its text should be random: at least 128 bits.
type Token struct {
	Name   string            // who bears it, as histories name who answered an approval or cancelled a turn: 1 to 64 of A-Z a-z 0-9 _ -
	Digest [sha256.Size]byte // sha256 of the token's text
	Scope  api.Scope
	Own    bool // it reaches only sessions that it owns or has a grant of. Defaults to every session
}

// caller is who bears the token.
func (t *Token) caller() api.Caller {
	return api.Caller{Name: t.Name, Reach: api.Reach{Scope: t.Scope, Own: t.Own}}
}

// ParseTokens reads tokens, one a line: name, scope, and the sha256 of the text
// in hex, with blanks between, and own where the token reaches only sessions
// that it owns or has a grant of. Empty lines and those that begin with # say
// nothing. Errors name the line, not what it holds.
func ParseTokens(r io.Reader) ([]Token, error) {
	var list []Token
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		own := len(fields) == 4 && fields[3] == "own"
		if len(fields) != 3 && !own {
			return nil, fmt.Errorf("line %d: want name, scope and sha256, and own or nothing", n)
		}
		t := Token{Name: fields[0], Scope: api.Scope(fields[1]), Own: own}
		digest, err := hex.DecodeString(fields[2])
		if err != nil || len(digest) != len(t.Digest) {
			return nil, fmt.Errorf("line %d: the third field is no sha256 in hex", n)
		}
		copy(t.Digest[:], digest)
		list = append(list, t)
	}
	return list, lines.Err()
}

func checkTokens(list []Token) error {
	if len(list) == 0 {
		return errors.New("a token is required")
	}
	names, digests := make(map[string]bool), make(map[[sha256.Size]byte]bool)
	var errs []error
	for i, t := range list {
		errs = append(errs, events.CheckToken(fmt.Sprintf("tokens[%d].name", i), t.Name))
		if err := t.Scope.Check(); err != nil {
			errs = append(errs, fmt.Errorf("token %d: %w", i, err))
		}
		if t.Digest == ([sha256.Size]byte{}) {
			errs = append(errs, fmt.Errorf("token %d: has no digest", i))
		}
		if names[t.Name] || digests[t.Digest] {
			errs = append(errs, fmt.Errorf("token %d: its name or text is another's too", i))
		}
		names[t.Name], digests[t.Digest] = true, true
	}
	return errors.Join(errs...)
}

// bearer finds the token of an Authorization header. It looks at all of them,
// so that the time tells nothing.
func bearer(list []Token, header string) (found *Token) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(text)))
	for i := range list {
		if subtle.ConstantTimeCompare(digest[:], list[i].Digest[:]) == 1 {
			found = &list[i]
		}
	}
	return found
}
