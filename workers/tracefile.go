package workers

import (
	"io"

	"go.uber.org/zap"

	"github.com/lash-go/lash/workers/internal/trace"
)

// TraceFile writes a trace as lines of JSON, one api.TraceRecord each. Several
// processes may append to one file. A line that cannot be written, or that comes
// faster than lines are written, is dropped: Lost counts those. Its method Trace
// is for [Config.Trace]; Close writes what is left.
type TraceFile = trace.File

// OpenTraceFile appends to a file. It creates the file where there is none.
func OpenTraceFile(path string, log *zap.Logger) (*TraceFile, error) {
	return trace.OpenFile(path, log)
}

// NewTraceFile writes to any writer. A writer that is an [io.Closer] too is closed
// with the trace. A nil logger is silent.
func NewTraceFile(to io.Writer, log *zap.Logger) *TraceFile { return trace.NewFile(to, log) }
