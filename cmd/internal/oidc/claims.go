package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	strict "github.com/go-jose/go-jose/v4/json"
)

// claims are the members of a token's payload. Each is there once, and those of [registered] have their names, letter by letter, and
// their types. Package encoding/json would take a member for one of another case, and the last one of two.
type claims map[string]json.RawMessage

// registered are the claims of RFC 7519 and OpenID Connect Core that decide about a token, with their types. A bearer token is sent again
// and again, so no jti is remembered.
func registered() map[string]func(json.RawMessage) bool {
	return map[string]func(json.RawMessage) bool{
		"iss": isText, "sub": isText, "azp": isText, "jti": isText, "aud": isTexts, "exp": isTime, "nbf": isTime, "iat": isTime,
	}
}

func parseClaims(payload []byte) (claims, error) {
	var c claims
	if err := strict.Unmarshal(payload, &c); err != nil || c == nil {
		return nil, errors.New("claims are no JSON object with each name once")
	}
	for known, fits := range registered() {
		for name, value := range c {
			if name != known && strings.EqualFold(name, known) {
				return nil, fmt.Errorf("claim %q is %s in other letters", name, known)
			}
			if name == known && !fits(value) {
				return nil, errors.New("claim " + name + " has the wrong type")
			}
		}
	}
	return c, nil
}

func isText(raw json.RawMessage) bool {
	var value *string
	return json.Unmarshal(raw, &value) == nil && value != nil
}

func isTexts(raw json.RawMessage) bool {
	_, ok := texts(raw)
	return ok
}

func isTime(raw json.RawMessage) bool {
	_, ok := moment(raw)
	return ok
}

// texts are a text, or a list of texts.
func texts(raw json.RawMessage) (list []string, ok bool) {
	var one *string
	if json.Unmarshal(raw, &one) == nil && one != nil {
		return []string{*one}, true
	}
	var several []*string
	if json.Unmarshal(raw, &several) != nil || several == nil || slices.Contains(several, nil) {
		return nil, false
	}
	for _, s := range several {
		list = append(list, *s)
	}
	return list, true
}

// maxMoment limits times, in seconds since 1970: the year 9999.
const maxMoment = 253_402_300_799

func moment(raw json.RawMessage) (time.Time, bool) {
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil || !(*seconds >= 0 && *seconds <= maxMoment) {
		return time.Time{}, false
	}
	return time.Unix(int64(*seconds), 0), true
}

// text is a claim that must be a text, and not empty.
func (c claims) text(name string) (string, error) {
	var value *string
	if err := json.Unmarshal(c[name], &value); err != nil || value == nil || *value == "" {
		return "", errors.New("claim " + name + " is no text")
	}
	return *value, nil
}

// check refuses claims of another issuer, for another audience or client, and those whose time is over or has not come.
func (c claims) check(cfg *Config) error {
	issuer, err := c.text("iss")
	if err == nil && issuer != cfg.Issuer {
		err = errors.New("is of another issuer")
	}
	if err != nil {
		return err
	}
	if audience, _ := texts(c["aud"]); !slices.Contains(audience, cfg.Audience) {
		return errors.New("is for another audience")
	}
	if len(cfg.Clients) > 0 {
		client, err := c.text("azp")
		if err == nil && !slices.Contains(cfg.Clients, client) {
			err = errors.New("claim azp is none of the clients")
		}
		if err != nil {
			return err
		}
	}
	now, leeway := cfg.Now(), time.Duration(cfg.LeewaySeconds)*time.Second
	expires, ok := moment(c["exp"])
	switch from, later := moment(c["nbf"]); {
	case !ok:
		return errors.New("claim exp is missing")
	case !now.Before(expires.Add(leeway)):
		return errors.New("has expired")
	case later && now.Add(leeway).Before(from):
		return errors.New("is not valid yet")
	}
	return nil
}
