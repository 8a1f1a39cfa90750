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
	longestWait = 1000 * time.Hour // a longer wait is a mistake or an attack
)

// Clip cuts text to the limit of a diagnostic in a history: 4000 characters of valid UTF-8.
func Clip(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	n := 0
	for i := range text {
		if n == maxMessage {
			return text[:i]
		}
		n++
	}
	return text
}

// redact removes secret from text and clips it. A secret of less than 8 bytes stays: it is a placeholder for an endpoint that asks for no
// key, and may be a part of any word.
func redact(text, secret string) string {
	if len(secret) >= minSecret {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return Clip(strings.TrimSpace(text))
}

// rawBody is a response body that is safe to record, by a function that removes secrets. JSON is encoded again: escapes in
// the body could hide a secret.
func rawBody(body []byte, redact func(string) string) string {
	var value any
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if json.Unmarshal(body, &value) == nil && encoder.Encode(value) == nil {
		body = plain.Bytes()
	}
	return redact(string(body))
}

// retryAfter is the wait that a response requests: retry-after-ms, else Retry-After in seconds (with fractions) or as
// a date. A date counts from the response's Date, or else from now. The result is 0 for no or an invalid value, and
// at most 1000 hours.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if wait, ok := parseWait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	header := h.Get("Retry-After")
	if wait, ok := parseWait(header, time.Second); ok {
		return wait
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return waitIn("retry in " + header)
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longestWait)
}

// toldWait matches the wait in the text of an error, and in Google's details.
var toldWait = regexp.MustCompile(`(?i)(?:retry|try again)(?: in | after |delay": ?")((?:[0-9.]+ ?(?:ms|s|m|h)[a-z]* ?)+)`)

// waitIn is the wait that a text names, or 0.
func waitIn(text string) (wait time.Duration) {
	named := toldWait.FindStringSubmatch(text)
	if named == nil {
		return 0
	}
	for _, one := range units.FindAllStringSubmatch(named[1], -1) {
		d, _ := time.ParseDuration(one[1] + strings.ToLower(one[2]))
		wait += d
	}
	return min(wait, longestWait)
}

var units = regexp.MustCompile(`(?i)([0-9.]+) ?(ms|s|m|h)`)

func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if math.IsInf(n, 1) {
		return longestWait, true
	}
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(longestWait))), true
}

// checkBaseURL rejects an invalid root of an endpoint.
func checkBaseURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("base URL: not a URL") // without the parse error, which repeats the URL
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("base URL: want http:// or https:// and a host")
	case u.User != nil:
		return errors.New("base URL: must not hold credentials")
	case u.RawQuery != "", u.Fragment != "":
		return errors.New("base URL: must not have a query or fragment; a query is a setting of its own")
	}
	return nil
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
	for _, r := range key {
		if r <= ' ' || r >= 0x7f {
			return errors.New("API key: must be printable ASCII without spaces")
		}
	}
	return nil
}

// OutputSchema returns the top-level members of an output's schema, raw. The error is an [*Error] of kind
// invalid_request.
func OutputSchema(o Output) (map[string]json.RawMessage, error) {
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(o.Schema, &schema); err != nil || schema == nil {
		return nil, &Error{Kind: KindRequest, Message: fmt.Sprintf("output %s: schema is not a JSON object", o.Name), Err: err}
	}
	return schema, nil
}
