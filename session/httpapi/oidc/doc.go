// Package oidc authenticates callers of the HTTP API by JSON web tokens that an
// OpenID Connect issuer signed. It imports session/httpapi and session/api.
//
// A token counts when its signature is of one of the issuer's keys, by an
// asymmetric algorithm that the configuration allows, and when issuer, audience,
// expiry and, where it has one, "not before" are right. Expiry is required.
//
// Keys are read again every [Config.RefreshSeconds], and when a token names a key that
// is not known, which happens at most every 10 s: callers that are not
// authenticated cannot make the server ask its issuer more often. When reading
// fails, the keys that were read last stay in use. An empty key set is no failure: it revokes all.
package oidc
