package serve

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/workers"
)

// traceWait bounds the write of the last trace lines.
const traceWait = 2 * time.Second

// trace is the writer of the node's trace; nil without setting trace.
func (c *Command) trace(log *zap.Logger) (trace session.TraceFunc, stop func(), err error) {
	if c.Trace == "" {
		return nil, func() {}, nil
	}
	file, err := workers.OpenTraceFile(c.Trace, log)
	if err != nil {
		return nil, nil, fmt.Errorf("setting trace: %w", err)
	}
	return file.Trace, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceWait) // the command's context has ended
		defer cancel()
		if err := file.Close(ctx); err != nil {
			log.Warn("trace", zap.Error(err))
		}
	}, nil
}

// logger writes through the terminal filter, because log lines may quote a server or a history.
func (c *Command) logger(s *program.Streams) (*zap.Logger, error) {
	if c.adds.Logger != nil {
		return c.adds.Logger, nil
	}
	cfg := zap.NewProductionConfig()
	if c.Debug {
		cfg.Level.SetLevel(zap.DebugLevel)
		cfg.Sampling = nil
	}
	return s.Logger(cfg)
}

// access logs and counts each request. It has a logger without sampling, because the node's log drops lines under
// load.
func (c *Command) access(s *program.Streams, watched *watched) (accesslog.Func, error) {
	log := c.adds.Logger
	if log == nil {
		cfg := zap.NewProductionConfig()
		cfg.Sampling, cfg.DisableCaller = nil, true
		var err error
		if log, err = s.Logger(cfg); err != nil {
			return nil, err
		}
	}
	return accesslog.Both(accesslog.Log(log), watched.metrics.Access), nil
}
