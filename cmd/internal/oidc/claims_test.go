package oidc_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// shape is what RFC 7519, RFC 9068 and OpenID Connect Core say about a claim.
type shape struct {
	valid    string   // a JSON value
	others   []string // more valid values
	wrong    []string // values that have another type, or mean something else
	required bool
}

// Values of the wrong type, by type.
const (
	wrongNumber = `17`
	wrongBool   = `true`
	wrongNull   = `null`
	wrongObject = `{"a":"b"}`
	wrongNested = `[["lash"]]`
)

func (i *issuer) shapes() map[string]shape {
	at := func(d time.Duration) string { return fmt.Sprint(i.clock().Add(d).Unix()) }
	noText := []string{wrongNumber, wrongBool, wrongNull, wrongObject, `[]`, `["web"]`}
	noTime := []string{wrongBool, wrongNull, wrongObject, `[]`, `"never"`, `-1`, `1e300`}
	return map[string]shape{
		"iss": {`"https://issuer.example"`, nil, append(noText, `"https://issuer.example/"`, `"HTTPS://issuer.example"`, `""`), true},
		"sub": {`"alice"`, []string{`"bob"`}, append(noText, `""`), true}, // the name of the caller
		"aud": {`"lash"`, []string{`["lash"]`, `["x","lash"]`}, []string{wrongNumber, wrongBool, wrongNull, wrongObject, wrongNested, `[]`, `["lash",1]`, `["lash",null]`, `"x"`, `"lash x"`, `["Lash"]`}, true},
		"exp": {at(time.Hour), []string{at(time.Hour) + ".5"}, append(noTime, fmt.Sprintf("%q", at(time.Hour)), at(-time.Hour), `0`), true},
		"nbf": {at(0), []string{`0`}, append(noTime, fmt.Sprintf("%q", at(0)), at(time.Hour)), false},
		"iat": {at(0), []string{`0`, at(-time.Hour)}, append(noTime, fmt.Sprintf("%q", at(0))), false},
		"jti": {`"j-1"`, []string{`"j-1"`, `""`}, noText, false},
		"azp": {`"web"`, []string{`"cli"`}, append(noText, `"Web"`, `"other"`, `""`), true}, // clients are configured
	}
}

// payload is a JSON object of all claims that valid has, with those of more behind them.
func (i *issuer) payload(with map[string]string, more ...string) []byte {
	members := []string{`"org":"acme"`, `"scope":"lash:read"`}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		members = append(members, fmt.Sprintf("%q:%s", name, with[name]))
	}
	return []byte("{" + strings.Join(append(members, more...), ",") + "}")
}

// inOtherLetters are names that a decoder without regard to case takes for a claim.
func inOtherLetters(claim string) []string {
	list := []string{strings.ToUpper(claim), strings.ToUpper(claim[:1]) + claim[1:], claim[:2] + strings.ToUpper(claim[2:])}
	if long := strings.Replace(claim, "s", "\u017f", 1); long != claim { // which folds to s
		list = append(list, long)
	}
	return list
}

// TestClaims signs tokens with each registered claim in every form: right, of another type, missing, twice, and in other letters, in the place of
// the claim or beside it. Only those that the standards allow are accepted.
func TestClaims(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	cfg := i.config()
	cfg.Clients = []string{"cli", "web"}
	id := i.identifier(cfg)
	valid := make(map[string]string)
	for name, s := range i.shapes() {
		valid[name] = s.valid
	}
	check := func(what string, accepted bool, payload []byte) {
		t.Helper()
		if !json.Valid(payload) {
			t.Fatalf("%s: %s is no JSON", what, payload)
		}
		if _, err := identify(t, id, i.sign(jose.RS256, i.keys[0], payload, nil)); (err == nil) != accepted {
			t.Errorf("%s: %s: got %v, want accepted %t", what, payload, err, accepted)
		}
	}
	with := func(name, value string) map[string]string {
		changed := maps.Clone(valid)
		if delete(changed, name); value != "" {
			changed[name] = value
		}
		return changed
	}
	check("all claims", true, i.payload(valid))
	check("an unknown claim twice", false, i.payload(valid, `"x":1`, `"x":1`))
	check("an unknown claim in two cases", true, i.payload(valid, `"x":1`, `"X":1`))
	check("the scope twice", false, i.payload(valid, `"scope":"lash:write"`))
	check("the tenant twice", false, i.payload(valid, `"org":"acme"`))
	for name, s := range i.shapes() {
		check(name+" missing", !s.required, i.payload(with(name, "")))
		for _, value := range s.others {
			check(name+" with another value", true, i.payload(with(name, value)))
		}
		for _, value := range s.wrong {
			check(name+" with a wrong value", false, i.payload(with(name, value)))
		}
		for _, value := range append(s.others, s.valid) {
			check(name+" twice", false, i.payload(valid, fmt.Sprintf("%q:%s", name, value)))
		}
		for _, other := range inOtherLetters(name) {
			member := fmt.Sprintf(`"%s":%s`, other, s.valid)
			check(name+" in other letters", false, i.payload(with(name, ""), member))
			check(name+" in other letters too", false, i.payload(valid, member))
		}
	}
	for _, v := range []struct {
		typ      any
		accepted bool
	}{
		{"JWT", true},
		{"jwt", true},
		{"at+jwt", true},
		{"AT+JWT", true},
		{"application/at+jwt", true},
		{"application/JWT", true},
		{"logout+jwt", false},
		{"secevent+jwt", false},
		{"dpop+jwt", false},
		{"JOSE", false},
		{"text/jwt", false},
		{"at+jwt ", false},
		{"", false},
		{1, false},
		{[]string{"JWT"}, false},
	} {
		token := i.sign(jose.RS256, i.keys[0], i.payload(valid), map[jose.HeaderKey]any{jose.HeaderType: v.typ})
		if _, err := identify(t, id, token); (err == nil) != v.accepted {
			t.Errorf("typ %v: got %v, want accepted %t", v.typ, err, v.accepted)
		}
	}
}

// TestNamePrefix: a subject has a prefix, unless the configuration says that it has none.
func TestNamePrefix(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for want, prefix := range map[string]*string{"oidc-alice": nil, "alice": new(""), "x_alice": new("x_")} {
		cfg := i.config()
		cfg.NamePrefix, cfg.Reserved = prefix, func(name string) bool { return name == "alice" && prefix == nil }
		if c, err := identify(t, i.identifier(cfg), i.token(nil)); err != nil || c.Name != want {
			t.Errorf("got %q, %v, want %q", c.Name, err, want)
		}
	}
}

// TestReservedSubjects: without a prefix no subject has the name of an operator, of another source's caller, or of a decision that nobody made.
func TestReservedSubjects(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	cfg := i.config()
	cfg.NamePrefix, cfg.ReservedNames, cfg.Reserved = new(""), []string{"ann"}, func(name string) bool { return name == "host" }
	id := i.identifier(cfg)
	for name, accepted := range map[string]bool{"alice": true, "Ann": true, "ann": false, "host": false, "timer": false, "Timer": false, "retention": false, "chat": false, "lash-node": false, "lash-replay": false} {
		if _, err := identify(t, id, i.token(map[string]any{"sub": name})); (err == nil) != accepted {
			t.Errorf("%s: got %v, want accepted %t", name, err, accepted)
		}
	}
}
