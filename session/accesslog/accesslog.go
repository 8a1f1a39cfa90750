// Package accesslog describes completed requests, for the log and for metrics, in one form for every API of the
// session service. It imports events. A record contains neither credentials nor content: no body, no query, no text
// of a path that the client chooses freely.
package accesslog

import (
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// The APIs of requests.
const (
	HTTP = "http"
	NATS = "nats"
)

// Inside is the caller of a request from the nodes' own account, which does not authenticate its users' names.
const Inside = "(inside)"

// Record is a completed request.
type Record struct {
	API       string           // HTTP or NATS
	Operation string           // of a fixed list; empty: no operation of the list
	Session   events.SessionID // empty: the request names none, or no valid one
	Sessions  string           // ids of a stream of several, with spaces
	Caller    string           // the authenticated name, as in commits; empty: not authenticated
	Status    int              // of HTTP; 0: no response was sent, or NATS
	Code      string           // of the refusal or failure; empty: success
	Reason    string           // why the authentication failed, where known
	Remote    string           // address of the connection; over NATS the server's name of the user, empty for a program of the nodes' account
	Duration  time.Duration
	Read      int64 // bytes of the request's body
	Written   int64 // bytes of the answer's body
}

// Func receives records. Calls may overlap, and delay the request's end.
type Func func(Record)

// Log returns a Func that writes a line for each record. The logger should not sample.
func Log(log *zap.Logger) Func {
	log = log.Named("access")
	return func(r Record) {
		fields := []zap.Field{
			zap.String("api", r.API), zap.String("op", r.Operation), zap.String("session", string(r.Session)), zap.String("caller", r.Caller),
			zap.Int("status", r.Status), zap.String("code", r.Code), zap.String("reason", r.Reason), zap.String("remote", r.Remote),
			zap.Duration("dur", r.Duration), zap.Int64("read", r.Read), zap.Int64("written", r.Written),
		}
		if r.Sessions != "" {
			fields = append(fields, zap.String("sessions", r.Sessions))
		}
		log.Info("request", fields...)
	}
}

// Both returns a Func that passes each record to a and then to b.
func Both(a, b Func) Func {
	return func(r Record) {
		a(r)
		b(r)
	}
}

// SessionOf is the text as a session id; empty where it is not a valid one.
func SessionOf(text string) events.SessionID {
	if events.CheckToken("session", text) != nil {
		return ""
	}
	return events.SessionID(text)
}
