package busembed

import (
	"cmp"
	"fmt"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Limits of the lines of a server's log: a client without the key can cause any number of them.
const (
	linesPerSecond = 1
	linesAtOnce    = 20
	maxLine        = 1000 // bytes
)

// serverLog passes the errors of a server to a logger. Among them are a store that cannot be written and refused
// connections, which no request reports. It keeps the server's first fatal error: the server reports that error to its
// logger only, and does not exit.
type serverLog struct {
	log   *zap.Logger
	lines *rate.Limiter
	fatal chan error
}

func newServerLog(log *zap.Logger) *serverLog {
	return &serverLog{cmp.Or(log, zap.NewNop()).Named("nats"), rate.NewLimiter(linesPerSecond, linesAtOnce), make(chan error, 1)}
}

// Errorf logs a line within the limits.
func (l *serverLog) Errorf(format string, args ...any) {
	if !l.lines.Allow() {
		return
	}
	line := fmt.Sprintf(format, args...)
	l.log.Error("server", zap.String("err", strings.ToValidUTF8(line[:min(len(line), maxLine)], "")))
}

// Fatalf keeps the first error.
func (l *serverLog) Fatalf(format string, args ...any) {
	select {
	case l.fatal <- fmt.Errorf(format, args...):
	default:
	}
}

// Noticef does nothing.
func (*serverLog) Noticef(string, ...any) {}

// Warnf does nothing.
func (*serverLog) Warnf(string, ...any) {}

// Debugf does nothing.
func (*serverLog) Debugf(string, ...any) {}

// Tracef does nothing.
func (*serverLog) Tracef(string, ...any) {}
