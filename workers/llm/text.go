package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxMessage  = 4000             // characters of Error.Message and Response.Detail
	maxStream   = 256 << 20        // bytes of the body of a reply
	maxFailure  = 64 << 10         // bytes of the body of an error
	maxModels   = 4 << 20          // bytes of a list of models
	minSecret   = 8                // bytes
	maxEvent    = 32 << 20         // bytes of a server-sent event
	longestWait = 1000 * time.Hour // a longer wait is a mistake or an attack
	afterEnd    = 10 * time.Second // the wait for what follows the end of a reply: the usage
)

// Clip cuts text to the limit of a diagnostic in a history: 4000 characters of valid UTF-8.
func Clip(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), utf8.UTFMax*maxMessage)], string(utf8.RuneError))
	if characters := []rune(text); len(characters) > maxMessage {
		return string(characters[:maxMessage])
	}
	return text
}

// redact removes secrets from text and clips it. Those of less than 8 bytes stay: they are placeholders for endpoints that ask for
// no key, and may be a part of any word.
func redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return Clip(strings.TrimSpace(text))
}

// rawBody is a response body that is safe to record. JSON is encoded again: escapes in the body could hide a secret.
func rawBody(body []byte, redact func(string) string) string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if value := decoded(body); value != nil && json.Valid(body) && encoder.Encode(value) == nil {
		body = plain.Bytes()
	}
	return redact(string(body))
}

// retryAfter is the wait that a response requests: retry-after-ms, else Retry-After in seconds, in words, or as a date, which
// counts from the response's Date, or else from now. It is 0 without one, and at most 1000 hours.
func retryAfter(h http.Header, now time.Time) time.Duration {
	header := h.Get("Retry-After")
	at, err := http.ParseTime(header)
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	if wait, ok := parseWait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	if wait, ok := parseWait(header, time.Second); ok {
		return wait
	}
	if err != nil {
		return waitIn("retry in " + header)
	}
	return min(max(at.Sub(now), 0), longestWait)
}

// toldWait matches the wait in the text of an error, and in Google's details.
var toldWait = regexp.MustCompile(`(?i)(?:(?:retry|try again|resets?)(?: in | after |delay": ?")|wait )(?:[0-9.]+ ?(?:ms|s|m|h)[a-z]* ?)+`)

// waitIn is the wait that a text names, or 0.
func waitIn(text string) (wait time.Duration) {
	for _, one := range units.FindAllStringSubmatch(toldWait.FindString(text), -1) {
		d, _ := time.ParseDuration(one[1] + strings.ToLower(one[2]))
		wait += d
	}
	return min(wait, longestWait)
}

var units = regexp.MustCompile(`(?i)([0-9.]+) ?(ms|s|m|h)`)

func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return time.Duration(min(n*float64(unit), float64(longestWait))), n >= 0 && (err == nil || math.IsInf(n, 1))
}

// checkedURL is the root of an endpoint, or why it cannot be one. The error does not repeat it.
func checkedURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("base URL: not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("base URL: want http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("base URL: must not hold credentials")
	case u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("base URL: must not have a query or fragment; a query is a setting of its own")
	}
	return u, nil
}

// checkHeader rejects names and values that no header can have.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return fmt.Errorf("header %.60q: must be a name of letters, digits, and - _ . in it", name)
		}
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return fmt.Errorf("header %s: must have no line end", name)
		}
	}
	return nil
}

// checkKey rejects an API key that cannot be in a header. Empty is allowed: local endpoints need no key.
func checkKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("API key: must be printable ASCII without spaces")
	}
	return nil
}

// escapes matches the escapes of JSON: a pair of surrogates, half of one, and any other.
var escapes = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|u[dD][89a-fA-F][[:xdigit:]]{2}|.)`)

// ValidUnicode returns JSON in which halves of surrogate pairs, and bytes that are not UTF-8, are U+FFFD: providers refuse
// requests with such a half, which a model that is cut within a character writes. The input is not changed.
func ValidUnicode(data []byte) []byte {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	if !bytes.Contains(data, []byte(`\u`)) {
		return data
	}
	return escapes.ReplaceAllFunc(data, func(escape []byte) []byte {
		if len(escape) == len(`\ud800`) {
			return []byte(`\ufffd`)
		}
		return escape
	})
}
