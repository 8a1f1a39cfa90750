package session_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/accesslog"
)

// TestLog writes one line for a request, with each field of the record.
func TestLog(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zapcore.InfoLevel)
	accesslog.Log(zap.New(core))(accesslog.Record{
		API: accesslog.HTTP, Operation: "submit", Session: "s1", Caller: "alice", Status: 403, Code: "forbidden", Reason: "expired",
		Remote: "192.0.2.1", Duration: time.Second, Read: 3, Written: 5,
	})
	all := lines.All()
	if len(all) != 1 || all[0].LoggerName != "access" || all[0].Message != "request" {
		t.Fatalf("got %+v, want one line of the logger access", all)
	}
	got := all[0].ContextMap()
	for key, want := range map[string]any{
		"api": "http", "op": "submit", "session": "s1", "caller": "alice", "status": int64(403), "code": "forbidden", "reason": "expired",
		"remote": "192.0.2.1", "dur": time.Second, "read": int64(3), "written": int64(5),
	} {
		runtest.Equal(t, key, got[key], want)
	}
}

// TestBoth passes a record to the first function before the second.
func TestBoth(t *testing.T) {
	t.Parallel()
	var got []string
	to := func(name string) accesslog.Func {
		return func(r accesslog.Record) { got = append(got, name+" "+r.Operation) }
	}
	accesslog.Both(to("a"), to("b"))(accesslog.Record{Operation: "submit"})
	if len(got) != 2 || got[0] != "a submit" || got[1] != "b submit" {
		t.Errorf("got %q, want a before b", got)
	}
}

// TestSessionOf leaves out what is no session id: a client chooses it, and the log has no text of its own.
func TestSessionOf(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"01J9ZK": true, "": false, "a.b": false, "a b": false, "line\nbreak": false, strings.Repeat("x", 300): false,
	} {
		if got := accesslog.SessionOf(text); (got != "") != valid || valid && string(got) != text {
			t.Errorf("%q: got %q, want valid %v", text, got, valid)
		}
	}
}
