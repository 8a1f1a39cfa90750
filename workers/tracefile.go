package workers

import (
	"io"

	"go.uber.org/zap"

	"github.com/lash-go/lash/workers/internal/trace"
)

// TraceFile writes a trace as lines of JSON, one api.TraceRecord each. Several processes may append to one file.
// TraceFile drops a line that cannot be written, or that arrives while its buffer is full; Lost counts them. Trace is
// the function for [Config.Trace]. Close writes the buffered lines.
type TraceFile = trace.File

// OpenTraceFile appends to a file, and creates it if it does not exist.
func OpenTraceFile(path string, log *zap.Logger) (*TraceFile, error) {
	return trace.OpenFile(path, log)
}

// NewTraceFile writes to any writer, and closes it if it is an [io.Closer]. A nil logger logs nothing.
func NewTraceFile(to io.Writer, log *zap.Logger) *TraceFile { return trace.NewFile(to, log) }
