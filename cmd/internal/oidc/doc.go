// Package oidc authenticates callers of the HTTP API by JSON web tokens of an OpenID Connect issuer. It imports
// session/httpapi and session/api.
//
// A token is valid if one of the issuer's keys signed it, with an asymmetric algorithm that the configuration allows,
// if it is of type JWT or at+jwt, and if its issuer, audience, client, expiry and "not before" are valid. Expiry is required, and "not
// before" is optional. Names of claims count letter by letter, and each is there once.
//
// The keys are read again every [Config.RefreshSeconds], and when a token names an unknown key. The second happens at
// most every 10 s, so unauthenticated clients cannot cause more requests to the issuer. When a read fails, the last
// keys stay in use. An empty key set is not a failure: it revokes all keys.
package oidc
