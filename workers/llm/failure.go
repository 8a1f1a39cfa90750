package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Failure is an error as an endpoint sent it.
type Failure struct {
	Message string
	Type    string
	Code    string // text, or a status as digits
	Raw     []byte // all of what was sent
}

// ParseFailure reads an error in any known form: {"error": {...}} or {"error": "text"}, the same without the envelope or in a
// list, {"errors": [...]}, {"detail": ...}, and the members that gateways have for a text and a code. It reports whether it
// found any. Without, the message is the body.
func ParseFailure(body []byte) (Failure, bool) {
	f, ok := parseFailure(body)
	if !ok {
		f.Message = string(body)
	}
	f.Message = innermost(f.Message)
	f.Raw = body
	return f, ok
}

// FailureIn is the error of an event that is not one of its wire's own; ok is false if it is none.
func FailureIn(e ServerEvent) (f Failure, ok bool) {
	f, ok = ParseFailure(e.Data)
	return f, ok || e.Name == "error"
}

// UnknownEvent is what an event of a type that its wire does not have says: nothing, or that the endpoint failed, where it is a
// problem of RFC 9457, whose type is a URI.
func UnknownEvent(e ServerEvent) (u Update) {
	members := membersOf(e.Data)
	if status, err := strconv.Atoi(told(members["status"])); err == nil && status >= http.StatusBadRequest && IsSet(firstOf(members["title"], members["detail"])) {
		f, _ := ParseFailure(e.Data)
		u.Failure = &f
	}
	return u
}

func parseFailure(body []byte) (Failure, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	members := membersOf(body)
	if members == nil {
		return Failure{}, false
	}
	for _, name := range []string{"error", "errors", "fault"} {
		inner := members[name]
		if !IsSet(inner) || slices.Contains([]string{"[]", "{}", "false", `""`}, string(inner)) {
			continue
		}
		f, outer := innerFailure(inner), innerFailure(body)
		if membersOf(inner) == nil && outer.Message != "" { // a title, or true, beside the text
			f.Message = strings.TrimPrefix(f.Message+": "+outer.Message, "true: ")
		}
		f.Code = cmp.Or(f.Code, outer.Code)
		return f, true
	}
	if status := members["baseresp"]; IsSet(status) { // MiniMax's, which successes have too
		f := innerFailure(status)
		return f, f.Code != "" && f.Code != "0"
	}
	f := innerFailure(body)
	return f, f.Message != ""
}

// membersOf are the members of an object, or of the first one of a list, by their names in lower case, without _ in them. They are
// nil for other JSON.
func membersOf(body []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil
	}
	out := make(map[string]json.RawMessage, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = members[name]
	}
	return out
}

// IsSet reports whether a member of an object is there and not null.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func innerFailure(body []byte) Failure {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	members := membersOf(body)
	if members == nil {
		return Failure{Message: plain(body)}
	}
	first := func(names ...string) string {
		for _, name := range names {
			if text := told(members[name]); text != "" {
				return text
			}
		}
		return ""
	}
	f := Failure{
		Message: first("message", "msg", "errormsg", "errormessage", "errmsg", "statusmsg", "faultstring", "detail", "errordescription", "reason", "title"),
		Type:    first("type", "status", "errortype"), Code: first("code", "errorcode", "errcode", "statuscode"),
	}
	for _, status := range []string{f.Type, told(members["status"])} {
		if _, err := strconv.Atoi(status); err == nil { // of an HTTP response
			f.Code = cmp.Or(f.Code, status)
			if f.Type == status {
				f.Type = ""
			}
		}
	}
	if inner, ok := parseFailure(firstOf(members["error"], members["errors"])); ok && f.Message == "" {
		f.Message, f.Type, f.Code = inner.Message, cmp.Or(f.Type, inner.Type), cmp.Or(f.Code, inner.Code)
	}
	var place []Label
	if json.Unmarshal(members["loc"], &place) == nil && len(place) > 0 { // of a request's member
		f.Message = fmt.Sprintf("%s %v", f.Message, place)
	}
	var meta struct{ Raw json.RawMessage } // OpenRouter's: what its provider sent
	if json.Unmarshal(members["metadata"], &meta) == nil && IsSet(meta.Raw) {
		f.Message = strings.TrimSpace(f.Message + ": " + plain(meta.Raw))
	}
	return f
}

func firstOf(list ...json.RawMessage) json.RawMessage {
	for _, raw := range list {
		if IsSet(raw) {
			return raw
		}
	}
	return nil
}

// told is the text of a member of an error: that of a string, or of an error, or of the first one of a list.
func told(raw json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	if f, ok := parseFailure(raw); ok {
		return f.Message
	}
	return plain(raw)
}

// innermost is the text of an error that a gateway passes on as JSON within its own text.
func innermost(text string) string {
	const depth = 4
	for range depth {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			return text
		}
		var inner json.RawMessage
		if json.NewDecoder(strings.NewReader(text[at:])).Decode(&inner) != nil {
			return text
		}
		f, ok := parseFailure(inner)
		if !ok || f.Message == "" {
			return text
		}
		text = strings.TrimRight(text[:at], " :-\n") + ": " + f.Message
		text = strings.TrimPrefix(text, ": ")
	}
	return text
}

// plain is a JSON string's value, and any other JSON as it stands; null is empty.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil || string(raw) == "null" {
		return s
	}
	return string(raw)
}

// kinds are the classes of types and codes, spelled with letters only, without "error" or "exception" at the end. Sources:
// https://docs.anthropic.com/en/api/errors, https://platform.openai.com/docs/guides/error-codes,
// https://cloud.google.com/apis/design/errors, https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html.
var kinds = map[string]ErrorKind{ //nolint:gochecknoglobals // a table that is only read
	"insufficientquota": KindAuth, "billinghardlimitreached": KindAuth, "billingnotactive": KindAuth, "billing": KindAuth,
	"invalidapikey": KindAuth, "authentication": KindAuth, "invalidauthentication": KindAuth, "unauthenticated": KindAuth, "unauthorized": KindAuth,
	"permission": KindAuth, "permissiondenied": KindAuth, "accessdenied": KindAuth,

	"contextlengthexceeded": KindOverflow, "exceedcontextsize": KindOverflow, "requesttoolarge": KindOverflow, "modelmaxprompttokensexceeded": KindOverflow,

	"ratelimitexceeded": KindRateLimit, "ratelimit": KindRateLimit, "overloaded": KindServer,

	"invalidrequest": KindRequest, "badrequest": KindRequest, "validation": KindRequest, "invalidprompt": KindRequest, "invalidargument": KindRequest,
	"notfound": KindRequest, "modelnotfound": KindRequest, "resourcenotfound": KindRequest, "dataresidencymismatch": KindRequest,
}

// named is the class that the type or the code names, the first one of some.
func (f Failure) named(some ...ErrorKind) (kind ErrorKind) {
	for _, name := range []string{f.Code, f.Type} {
		name = lettersOf(name)
		name = strings.TrimSuffix(strings.TrimSuffix(name, "error"), "exception")
		if kind := kinds[name]; slices.Contains(some, kind) {
			return kind
		}
	}
	return ""
}

// kind is the class of a failure; status is 0 inside a stream, and where an endpoint answers 200 to everything: then the code may
// be one. A status that says that the request can never succeed decides, whatever the type is called.
func (f Failure) kind(status int) ErrorKind {
	if status < http.StatusMultipleChoices {
		status = f.status()
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return KindAuth
	case status == http.StatusNotFound:
		return KindRequest
	case f.named(KindAuth) != "":
		return KindAuth
	case f.overflows():
		return KindOverflow
	case f.named(KindRateLimit, KindServer) != "":
		return f.named(KindRateLimit, KindServer)
	case status >= http.StatusMultipleChoices && status < 600:
		return statusKind(status)
	case f.named(KindRequest) != "", f.forbidden():
		return KindRequest
	}
	return KindServer
}

// status is a code that is an HTTP status, or 0.
func (f Failure) status() int {
	n, _ := strconv.Atoi(f.Code)
	return n
}

// forbidden reports whether the code is that of a policy, or of an image that is not accepted.
func (f Failure) forbidden() bool {
	return strings.Contains(f.Code, "image") || strings.HasSuffix(f.Code, "_policy") || strings.HasSuffix(f.Code, "_policy_violation")
}

// statusKind is the class of an HTTP status, for a response without a better reason.
func statusKind(status int) ErrorKind {
	switch {
	case status == http.StatusTooManyRequests:
		return KindRateLimit
	case status >= 500:
		return KindServer
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return KindAuth
	case status == http.StatusRequestTimeout:
		return KindTransport
	case status == http.StatusRequestEntityTooLarge:
		return KindOverflow
	}
	return KindRequest
}
