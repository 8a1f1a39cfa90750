package program

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger is a logger on standard error, through the terminal filter. Lines have no stack of the logging call: a line
// about a panic has the stack of the panic.
func (s *Streams) Logger(cfg zap.Config) (*zap.Logger, error) {
	cfg.DisableStacktrace = true
	core := zapcore.NewCore(zapcore.NewJSONEncoder(cfg.EncoderConfig), zapcore.AddSync(s.Err), cfg.Level)
	if cfg.Sampling != nil {
		core = zapcore.NewSamplerWithOptions(core, time.Second, cfg.Sampling.Initial, cfg.Sampling.Thereafter)
	}
	return cfg.Build(zap.WrapCore(func(zapcore.Core) zapcore.Core { return core }), zap.ErrorOutput(zapcore.AddSync(s.Err)))
}
