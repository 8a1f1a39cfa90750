package llm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// afterEnd is the wait for what follows the end of a reply: the usage.
const afterEnd = 10 * time.Second

// errSilent ends the context of a call whose endpoint fell silent.
var errSilent = errors.New("no content")

// silence ends a call whose endpoint sends no content for too long: comments, pings and empty pieces are none. It begins with
// the request.
type silence struct {
	limit time.Duration   // 0: none
	ctx   context.Context //nolint:containedctx // of the one call
	end   context.CancelCauseFunc
	timer *time.Timer
}

func listen(caller context.Context, limit time.Duration) (*silence, context.Context) {
	ctx, end := context.WithCancelCause(caller)
	s := &silence{limit: limit, ctx: ctx, end: end}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, func() { end(errSilent) })
	}
	return s, ctx
}

// heard is called with each piece of content. ended: the reply has its end.
func (s *silence) heard(ended bool) {
	switch {
	case ended && s.timer == nil:
		s.timer = time.AfterFunc(afterEnd, func() { s.end(errSilent) })
	case ended:
		s.timer.Reset(afterEnd)
	case s.timer != nil:
		s.timer.Reset(s.limit)
	}
}

// passed reports whether the silence is what ended the call with an error.
func (s *silence) passed(err error) bool {
	return err != nil && errors.Is(context.Cause(s.ctx), errSilent)
}

// failure is the error of a call that the silence ended.
func (s *silence) failure() error {
	return &Error{Kind: KindTransport, Code: "silence", Message: fmt.Sprintf(
		"the endpoint sent no content for %v: a model that thinks longer without a word needs a larger limit: --model-silence of the node, silence_ms of the session", s.limit)}
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.end(nil)
}
