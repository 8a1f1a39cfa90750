// Package accesslog describes requests that ended, for the log and for metrics: one
// form for every API of the session service. It imports events. A record holds
// neither credentials nor what was said: no body, no query, no path of which the
// client chose the words.
package accesslog

import (
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// The APIs through which requests come.
const (
	HTTP = "http"
	NATS = "nats"
)

// Inside is the caller of a request from the account of the nodes, whose users
// say themselves who they are.
const Inside = "(inside)"

// Record is a request that ended.
type Record struct {
	API       string           // HTTP or NATS
	Operation string           // of a fixed list; empty where there is none such
	Session   events.SessionID // empty where the request names none, or no valid one
	Caller    string           // as it was authenticated, and as histories name it; empty where it was not
	Status    int              // of HTTP; 0 where none was sent, and over NATS
	Code      string           // of the refusal or failure; empty where it was done
	Reason    string           // why the caller was not authenticated, where that is known
	Remote    string           // address of the connection; over NATS the user as the server knows it, empty for a program of the nodes' account
	Duration  time.Duration
	Read      int64 // bytes of the request's body
	Written   int64 // bytes of the answer's body
}

// Func takes records. Calls may overlap, and hold requests up.
type Func func(Record)

// Log writes a line for each record. The logger should not sample.
func Log(log *zap.Logger) Func {
	log = log.Named("access")
	return func(r Record) {
		log.Info("request",
			zap.String("api", r.API), zap.String("op", r.Operation), zap.String("session", string(r.Session)), zap.String("caller", r.Caller),
			zap.Int("status", r.Status), zap.String("code", r.Code), zap.String("reason", r.Reason), zap.String("remote", r.Remote),
			zap.Duration("dur", r.Duration), zap.Int64("read", r.Read), zap.Int64("written", r.Written),
		)
	}
}

// Both gives a record to two.
func Both(a, b Func) Func {
	return func(r Record) {
		a(r)
		b(r)
	}
}

// SessionOf is a session's id, empty for a text that is none.
func SessionOf(text string) events.SessionID {
	if events.CheckToken("session", text) != nil {
		return ""
	}
	return events.SessionID(text)
}
