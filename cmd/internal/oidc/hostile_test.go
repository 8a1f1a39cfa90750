package oidc_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// hostile are tokens that must all be refused.
func (i *issuer) hostile() map[string]string {
	public := i.keys[0].Public()
	der, _ := x509.MarshalPKIXPublicKey(public.Key)
	jwk, _ := public.MarshalJSON()
	stranger := rsaKey(i.t, "r1")
	good := strings.Split(i.token(nil), ".")
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	list := map[string]string{
		"none":              part(`{"alg":"none"}`) + "." + good[1] + ".",
		"none_signed":       part(`{"alg":"none","kid":"r1"}`) + "." + good[1] + "." + good[2],
		"NONE":              part(`{"alg":"NoNe","kid":"r1"}`) + "." + good[1] + ".",
		"hs256_pem":         i.sign(jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), i.claims(nil), map[jose.HeaderKey]any{"kid": "r1"}),
		"hs256_der":         i.sign(jose.HS256, der, i.claims(nil), map[jose.HeaderKey]any{"kid": "r1"}),
		"hs256_jwk":         i.sign(jose.HS256, jwk, i.claims(nil), map[jose.HeaderKey]any{"kid": "r1"}),
		"hs256_of_the_set":  i.sign(jose.HS256, []byte("a symmetric key, which counts for nothing"), i.claims(nil), map[jose.HeaderKey]any{"kid": "sym"}),
		"algorithm":         i.sign(jose.RS512, i.keys[0].Key, i.claims(nil), map[jose.HeaderKey]any{"kid": "r1"}),
		"other_key_same_id": i.sign(jose.RS256, stranger, i.claims(nil), nil),
		"other_key_no_id":   i.sign(jose.RS256, stranger.Key, i.claims(nil), nil),
		"unknown_id":        i.sign(jose.RS256, rsaKey(i.t, "r9"), i.claims(nil), nil),
		"key_of_another_id": i.sign(jose.RS256, i.keys[0].Key, i.claims(nil), map[jose.HeaderKey]any{"kid": "e1"}),
		"key_in_header":     i.sign(jose.RS256, stranger.Key, i.claims(nil), map[jose.HeaderKey]any{"jwk": stranger.Public()}),
		"url_in_header":     i.sign(jose.RS256, stranger.Key, i.claims(nil), map[jose.HeaderKey]any{"jku": i.url, "kid": "r1"}),
		"critical":          i.sign(jose.RS256, i.keys[0].Key, i.claims(nil), map[jose.HeaderKey]any{"kid": "r1", "crit": []string{"x"}, "x": 1}),
		"other_payload":     good[0] + "." + part(string(i.claims(map[string]any{"sub": "bob"}))) + "." + good[2],
		"other_signature":   good[0] + "." + good[1] + "." + part("signature"),
		"no_signature":      good[0] + "." + good[1] + ".",
		"huge":              i.token(map[string]any{"x": strings.Repeat("x", 16<<10)}),
		"no_json":           i.sign(jose.RS256, i.keys[0], []byte("alice"), nil),
		"list":              i.sign(jose.RS256, i.keys[0], []byte("[]"), nil),
		"null":              i.sign(jose.RS256, i.keys[0], []byte("null"), nil),
		"empty":             i.sign(jose.RS256, i.keys[0], nil, nil),
		"parts":             strings.Join(append(good, good[0]), "."),
		"dots":              "..",
	}
	for name, change := range i.hostileClaims() {
		list[name] = i.token(change)
	}
	return list
}

// hostileClaims are changes to a valid token's claims, each of which must make it invalid.
func (i *issuer) hostileClaims() map[string]map[string]any {
	list := make(map[string]map[string]any)
	at := func(d time.Duration) int64 { return i.clock().Add(d).Unix() }
	for claim, values := range map[string][]any{
		"iss":   {"https://issuer.example/", "https://evil.example", ""},
		"aud":   {"other", []string{"other", "lash "}, []string{}},
		"exp":   {at(-31 * time.Second), 0, -1, 1e300, "never", fmt.Sprint(at(time.Hour))},
		"nbf":   {at(32 * time.Second), 1e300, -1, fmt.Sprint(at(0)), true},
		"sub":   {"node:a", "client:a", "a\nb", "a\x00b", "a b", "\u202ealice", "é", "../a", strings.Repeat("a", 61), "me"},
		"org":   {"evil", "Acme", "acme "},
		"scope": {"openid", "write", "lash:", "lash:root", "lash:read lash:root", "lash:all", "lash:read,all", []string{}, []any{"lash:read", 1}, "LASH:write"},
	} {
		for n, v := range append(values, nil, 1, true, map[string]any{}, []any{map[string]any{}}, []any{nil}, "") {
			if claim == "nbf" && (v == nil || v == 1) { // these values are valid
				continue
			}
			list[fmt.Sprintf("%s_%d", claim, n)] = map[string]any{claim: v}
		}
	}
	return list
}
