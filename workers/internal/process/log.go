package process

import (
	"io"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Lines of a program's standard error in the log, in a second and at once. Others are counted.
const (
	LinesPerSecond = 20
	LinesAtOnce    = 200
)

// LogLines logs what a program prints to its standard error, no faster than [LinesPerSecond] after [LinesAtOnce] lines. The
// next line that is logged has the number of those before it that are not. shown changes each line; nil changes none.
func LogLines(log *zap.Logger, r io.Reader, shown func(line string) string) {
	limit, dropped := rate.NewLimiter(LinesPerSecond, LinesAtOnce), 0
	Lines(r, func(line string) {
		if !limit.Allow() {
			dropped++
			return
		}
		if shown != nil {
			line = shown(line)
		}
		fields := []zap.Field{zap.String("line", line)}
		if dropped > 0 {
			fields = append(fields, zap.Int("dropped", dropped))
			dropped = 0
		}
		log.Info("stderr", fields...)
	})
	if dropped > 0 {
		log.Info("stderr", zap.Int("dropped", dropped))
	}
}
