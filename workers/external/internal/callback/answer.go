package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Problem is an answer that refuses a callback. field is what is wrong with it; it may be empty.
func Problem(status int, code, field, detail string) *wire.CallbackAnswer {
	var details map[string]string
	if field != "" {
		details = map[string]string{"field": field, "reason": detail}
	}
	return &wire.CallbackAnswer{Status: status, Body: problemJSON(status, code, detail, details)}
}

// problemJSON is a problem as the API has it, with details if there are any.
func problemJSON(status int, code, detail string, details map[string]string) []byte {
	p := map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": detail}
	if details != nil {
		p["details"] = details
	}
	body, _ := json.Marshal(p) // texts and a number
	return body
}

// InvalidField is the problem of an [*events.FieldError].
func InvalidField(err error) *wire.CallbackAnswer {
	field := ""
	if wrong, ok := errors.AsType[*events.FieldError](err); ok {
		field = wrong.Field
	}
	return Problem(http.StatusBadRequest, "invalid_parameter", field, err.Error())
}

// answerWriter is the response to a callback.
type answerWriter struct {
	header http.Header
	limit  int // of the body
	status int
	body   bytes.Buffer
	failed error
}

// Header implements [http.ResponseWriter].
func (w *answerWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *answerWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len()+len(data) > w.limit {
		w.failed = fmt.Errorf("the answer has more than %d bytes", w.limit)
		return 0, w.failed
	}
	return w.body.Write(data)
}

func (w *answerWriter) answer() *wire.CallbackAnswer {
	switch {
	case w.failed != nil:
		return Problem(http.StatusInternalServerError, "internal", "", w.failed.Error())
	case w.body.Len() > 0 && !json.Valid(w.body.Bytes()):
		return Problem(http.StatusNotAcceptable, "not_json", "", "the answer is no JSON, which callbacks cannot have")
	}
	return &wire.CallbackAnswer{Status: w.status, Body: w.body.Bytes()}
}
