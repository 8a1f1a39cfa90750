package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
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
	f.innermost()
	f.Raw = body
	return f, ok
}

// decode is what an event says in its wire. It is a failure if it says so, or is none of the wire's own and has the text of one,
// or is a problem of RFC 9457, whose type is a URI.
func (e *Endpoint) decode(event ServerEvent) (u Update, err error) {
	malformed := Decode(event.Data, &event.Members)
	m := event.Members
	event.Type = cmp.Or(m.Label("type"), event.Name)
	if malformed == nil {
		u, err = e.wire.Decode(event)
	}
	status, _ := strconv.Atoi(m.Label("status"))
	problem := status >= http.StatusBadRequest && IsSet(firstOf(m["title"], m["detail"]))
	named := event.Name == "error" || event.Type == "error"
	says := named || problem || event.Type == "response.error" || m.Label("object") == "error" || IsSet(m["error"])
	if (says || u.Unknown || malformed != nil) && u.Failure == nil {
		if f, ok := ParseFailure(event.Data); ok || named {
			return Update{Failure: &f}, nil
		}
	}
	return u, cmp.Or(malformed, err)
}

// FailureIn is the error in a choice or a response, or nil.
func FailureIn(m Members) *Failure {
	body, _ := json.Marshal(Members{"error": m["error"]}) // it was received as JSON
	if f, ok := ParseFailure(body); ok {
		return &f
	}
	return nil
}

func parseFailure(body []byte) (Failure, bool) {
	body = first(body)
	members := membersOf(body)
	if members == nil {
		return Failure{}, false
	}
	for _, name := range []string{"error", "errors", "fault"} {
		inner := members[name]
		f, outer := innerFailure(inner), innerFailure(body)
		if f.Message+f.Type+f.Code == "" || string(inner) == "[]" || string(inner) == "false" {
			continue
		}
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

// first is the first element of a list, and any other JSON.
func first(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return raw
}

// membersOf are the members of an object by their names in lower case, without _ in them; nil for other JSON.
func membersOf(body []byte) Members {
	members := MembersOf(body)
	if members == nil {
		return nil
	}
	out := make(Members, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = members[name]
	}
	return out
}

// IsSet reports whether a member of an object is there and not null.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func innerFailure(body []byte) Failure {
	body = first(body)
	members := membersOf(body)
	if members == nil {
		return Failure{Message: plain(body)}
	}
	text := func(names ...string) (text string) {
		for _, name := range names {
			text = cmp.Or(text, told(members[name]))
		}
		return text
	}
	f := Failure{
		Message: text("message", "msg", "errormsg", "errormessage", "errmsg", "statusmsg", "faultstring", "detail", "errordescription", "reason", "title"),
		Type:    text("type", "status", "errortype"), Code: text("code", "errorcode", "errcode", "statuscode", "httpcode"),
	}
	for _, status := range []string{f.Type, told(members["status"])} {
		if _, err := strconv.Atoi(status); err == nil { // of an HTTP response
			f.Code = cmp.Or(f.Code, status)
		}
	}
	if inner, ok := parseFailure(firstOf(members["error"], members["errors"])); ok && f.Message == "" {
		f.Message, f.Type, f.Code = inner.Message, cmp.Or(f.Type, inner.Type), cmp.Or(f.Code, inner.Code)
	}
	if place := list(decoded(members["loc"])); len(place) > 0 { // of a request's member
		f.Message = fmt.Sprintf("%s %v", f.Message, place)
	}
	if raw := MembersOf(members["metadata"])["raw"]; IsSet(raw) { // OpenRouter's: what its provider sent
		f.Message = strings.TrimSpace(f.Message + ": " + plain(raw))
	}
	return f
}

func firstOf(list ...json.RawMessage) json.RawMessage {
	if at := slices.IndexFunc(list, IsSet); at >= 0 {
		return list[at]
	}
	return nil
}

// told is the text of a member of an error: that of a string, or of an error, or of the first one of a list.
func told(raw json.RawMessage) string {
	raw = first(raw)
	if f, ok := parseFailure(raw); ok {
		return f.Message
	}
	return plain(raw)
}

// innermost reads the error that a gateway passes on as JSON within its own text.
func (f *Failure) innermost() {
	const depth = 4
	for range depth {
		before, _, _ := strings.Cut(f.Message, "{")
		var raw json.RawMessage
		_ = json.NewDecoder(strings.NewReader(f.Message[len(before):])).Decode(&raw)
		inner, ok := parseFailure(raw)
		if !ok || inner.Message == "" {
			break
		}
		f.Message, f.Code = strings.TrimPrefix(strings.TrimRight(before, " :-\n")+": "+inner.Message, ": "), cmp.Or(f.Code, inner.Code)
	}
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
var kinds = map[ErrorKind]string{ //nolint:gochecknoglobals // a table that is only read
	KindAuth: "insufficientquota billinghardlimitreached billingnotactive billing invalidapikey authentication invalidauthentication " +
		"unauthenticated unauthorized permission permissiondenied accessdenied exceededcurrentquota insufficientbalance",
	KindOverflow:   "contextlengthexceeded contextwindowexceeded exceedcontextsize requesttoolarge modelmaxprompttokensexceeded tokenslimitreached",
	KindRateLimit:  "ratelimitexceeded ratelimit toomanyrequests throttling",
	KindServer:     "overloaded",
	KindUnfinished: "toolusefailed outputparsefailed jsonvalidatefailed", // Groq's: the model wrote what cannot be read
	KindRequest: "invalidrequest badrequest validation invalidprompt invalidargument notfound modelnotfound resourcenotfound " +
		"dataresidencymismatch",
}

// statuses are the classes of statuses that no type and no code has to explain.
var statuses = map[int]ErrorKind{ //nolint:gochecknoglobals // a table that is only read
	http.StatusUnauthorized: KindAuth, http.StatusForbidden: KindAuth, http.StatusPaymentRequired: KindAuth, http.StatusNotFound: KindRequest,
	http.StatusTooManyRequests: KindRateLimit, http.StatusRequestTimeout: KindTransport, http.StatusRequestEntityTooLarge: KindOverflow,
	http.StatusConflict: KindServer, http.StatusFailedDependency: KindServer, http.StatusTooEarly: KindServer, 498: KindServer, // Bedrock's, Groq's
}

var (
	forbidden = regexp.MustCompile("(?i)image|content_?filter|inspection_?failed|moderation|sensitive|_policy(_violation)?$") // codes
	// refused is what endpoints without a code for it say of an account or a key, some with the status of a rate limit, or of none.
	refused = regexp.MustCompile(`(?i)insufficient (?:account )?(?:balance|credits?|funds)|balance is (?:insufficient|too low)|used all available credits|` +
		`spending limit|余额不足|额度不足|(?:invalid|incorrect) api.?key|api key not valid|login fail`)
)

// named is the class that the type or the code names, the first one of some.
func (f Failure) named(some ...ErrorKind) (kind ErrorKind) {
	for _, name := range []string{f.Code, f.Type} {
		name = strings.TrimSuffix(strings.TrimSuffix(lettersOf(name), "error"), "exception")
		if kind := meaning(kinds, name); slices.Contains(some, kind) {
			return kind
		}
	}
	return ""
}

// kind is the class of a failure; status is 0 inside a stream, and where an endpoint answers 200 to everything: then the code may
// be one, as where a gateway's own status says less. A status that says that the request can never succeed decides, whatever the type is called.
func (f Failure) kind(status int) ErrorKind {
	if code, _ := strconv.Atoi(f.Code); status < http.StatusMultipleChoices || statuses[status] == "" && statuses[code] != "" {
		status = code
	}
	of, named := statuses[status], f.named(KindRateLimit, KindServer)
	switch {
	case of == KindAuth, of == KindRequest:
		return of
	case f.named(KindAuth) != "", refused.MatchString(f.Message):
		return KindAuth
	case f.named(KindUnfinished) != "", strings.Contains(f.Message, "expecting start token"): // the second is vLLM's of gpt-oss
		return KindUnfinished
	case f.overflows():
		return KindOverflow
	case cmp.Or(named, of) != "":
		return cmp.Or(named, of)
	case status >= http.StatusInternalServerError && status < 600 && f.Code != "model_not_found": // which gateways say with any status
		return KindServer
	case status >= http.StatusMultipleChoices && status < 600, f.named(KindRequest) != "", forbidden.MatchString(f.Code):
		return KindRequest
	}
	return KindServer
}
