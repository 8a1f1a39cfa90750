package httpapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// problem is an error response (RFC 9457). Codes are stable: those of package api, and those of this package.
type problem struct {
	Type    string            `json:"type" jsonschema:"always about:blank; see code"`
	Title   string            `json:"title" jsonschema:"text of the HTTP status"`
	Status  int               `json:"status"`
	Code    string            `json:"code" jsonschema:"stable code of the error, for programs"`
	Detail  string            `json:"detail" jsonschema:"text for people"`
	Details map[string]string `json:"details,omitempty" jsonschema:"values of the error by name; numbers in decimal"`

	allow string // methods, of a 405
	retry int    // seconds for Retry-After; 0: none
}

func (p *problem) Error() string { return p.Detail }

// retryAfter is the default Retry-After, in seconds.
const retryAfter = 1

// The refusals of this server.
var (
	errOtherPage    = &problem{Status: http.StatusForbidden, Code: "forbidden", Detail: "a web page of another origin may not act with a client certificate; the setting http-origin names those that may"}
	errForeignHost  = &problem{Status: http.StatusForbidden, Code: "forbidden", Detail: "the header Host does not name this machine, at an address that only this machine reaches: a proxy before it needs --http-proxy, and writes the header of the setting http-proxy-header"}
	errUnauthorized = &problem{Status: http.StatusUnauthorized, Code: "unauthorized", Detail: "a known token, in the header Authorization: Bearer TOKEN, or a known client certificate is required"}
	errNotReady     = &problem{Status: http.StatusServiceUnavailable, Code: "credentials_unchecked", Detail: "the keys that verify such a token were not read yet", retry: 10}
	errNoPath       = &problem{Status: http.StatusNotFound, Code: "no_path", Detail: "no such path, see /v1/openapi.json"}
	errBusy         = &problem{Status: http.StatusServiceUnavailable, Code: "busy", Detail: "too many requests at once", retry: retryAfter}
	errDraining     = &problem{Status: http.StatusServiceUnavailable, Code: "draining", Detail: "the server is stopping", retry: retryAfter}
)

func forbidden(needs api.Right) *problem {
	return &problem{Status: http.StatusForbidden, Code: "forbidden", Detail: "the caller lacks the right " + string(needs), Details: map[string]string{"right": string(needs), "scope": string(needs.Least())}}
}

// invalid refuses a field of a request. The link stands between its name and the reason in the text for people.
func invalid(code, field, link, reason string) *problem {
	return &problem{Status: http.StatusBadRequest, Code: code, Detail: field + link + reason, Details: map[string]string{"field": field, "reason": reason}}
}

// invalidBody refuses a body as a whole.
func invalidBody(why string) *problem {
	p := invalidField("body", why)
	p.Detail = why
	return p
}

// invalidField refuses a field of a body.
func invalidField(name, why string) *problem { return invalid("invalid_body", name, " ", why) }

// invalidParam refuses a parameter or a header.
func invalidParam(name, why string) *problem { return invalid("invalid_parameter", name, " ", why) }

// problemOf converts an error of the service. An unknown error is internal, and its text is not sent.
func problemOf(err error) *problem {
	switch p := err.(type) { //nolint:errorlint // problems are never wrapped
	case *problem:
		return p
	case *refusedError:
		return p.problem
	}
	code, class := api.Code(err)
	b := api.EncodeError(err)
	p := &problem{Status: cmp.Or(statuses[class], http.StatusInternalServerError), Code: code, Detail: b.Message, Details: b.Details}
	if p.Status == http.StatusServiceUnavailable || class == api.ClassBusy && p.Details["what"] != api.OpenSessions && p.Details["what"] != api.StoredBytes {
		p.retry = retryAfter
	}
	return p
}

// statuses are the statuses of the classes of errors; of others it is 500. It is the only place that maps them.
//
//nolint:gochecknoglobals // read-only
var statuses = map[api.Class]int{
	api.ClassInvalid:     http.StatusBadRequest,
	api.ClassTooLarge:    http.StatusRequestEntityTooLarge,
	api.ClassForbidden:   http.StatusForbidden,
	api.ClassNotFound:    http.StatusNotFound,
	api.ClassConflict:    http.StatusConflict,
	api.ClassLost:        http.StatusConflict, // after 5xx generic clients retry
	api.ClassFailed:      http.StatusUnprocessableEntity,
	api.ClassUnavailable: http.StatusServiceUnavailable,
	api.ClassUnknown:     http.StatusGatewayTimeout, // not 503, after which generic clients retry: the request may have had an effect
	api.ClassBusy:        http.StatusTooManyRequests,
	api.ClassStorage:     http.StatusInsufficientStorage,
}

// reportProblem is the problem that the client receives for an error. The whole text goes to the log where the client does not
// receive it.
func (s *Server) reportProblem(r *http.Request, err error) *problem {
	p := *problemOf(err)
	switch {
	case p.Status == http.StatusInternalServerError:
		s.log.Error("internal error", zap.String("operation", r.Pattern), zap.Error(err))
	case p.Detail == err.Error():
	case p.Status > http.StatusInternalServerError:
		s.log.Warn("request failed", zap.String("operation", r.Pattern), zap.String("code", p.Code), zap.Error(err))
	default: // the request is wrong: not the operator's concern
		s.log.Debug("request refused", zap.String("operation", r.Pattern), zap.String("code", p.Code), zap.Error(err))
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	p.Detail = events.Clip(p.Detail, maxText, "…")
	p.Details = maps.Clone(p.Details) // of a refusal that all requests share
	for name, text := range p.Details {
		p.Details[name] = events.Clip(text, maxText, "…")
	}
	return &p
}

// maxText limits each text of a problem, in bytes: a text may repeat a part of the request.
const maxText = 4 << 10

// refuse answers with a problem.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, record := s.reportProblem(r, err), recordOf(w)
	record.Code = p.Code
	if refused, ok := err.(*refusedError); ok { //nolint:errorlint // never wrapped
		record.Reason = refused.reason.Error()
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
		if c := connOf(r); c != nil { // the next wrong token needs a new connection
			answer, last := c.refuse()
			if !answer {
				panic(http.ErrAbortHandler)
			}
			if last {
				h.Set("Connection", "close")
			}
		}
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	data, _ := json.Marshal(p) // of strings and numbers
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}
