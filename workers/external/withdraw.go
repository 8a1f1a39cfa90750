package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// maxClosed is how many withdrawn questions of a plugin a node remembers as closed: signs of life repeat them.
const maxClosed = 1024

// closeEvery is how often a node closes questions of a plugin at most, as each costs a read of its session.
const closeEvery = time.Second

// closeWait limits the time in which a withdrawn question is closed. The next sign of life repeats it.
const closeWait = 10 * time.Second

// withdrawnReason is the reason in the history of an answer in place of people's.
const withdrawnReason = "the question was withdrawn: the tool no longer waits for an answer"

// withdrawnLocked closes questions that instances of a plugin no longer wait for, in one goroutine for each plugin.
func (p *Plugins) withdrawnLocked(name string, k *known, list []wire.Question) {
	a := p.api.Load()
	list = slices.DeleteFunc(list, func(q wire.Question) bool { return k.closed[q] })
	if a == nil || k.closing || len(list) == 0 || p.ctx.Err() != nil {
		return
	}
	k.closing = true
	p.work.Go(func() {
		var closed []wire.Question
		var failed error
		for _, q := range list {
			done, err := a.closeQuestion(p.ctx, name, q)
			if err != nil {
				failed = fmt.Errorf("session %s: %w", events.Clip(string(q.Session), events.MaxTokenBytes, ""), err)
			}
			if done {
				closed = append(closed, q)
			}
		}
		if failed != nil {
			p.log.Warn("withdrawn questions are not closed", zap.String("plugin", name), zap.Int("closed", len(closed)), zap.Int("of", len(list)), zap.NamedError("last", failed))
		}
		delay.Sleep(p.ctx, closeEvery)
		p.mu.Lock()
		defer p.mu.Unlock()
		k.closing = false
		if k.closed == nil || len(k.closed) >= maxClosed {
			k.closed = make(map[wire.Question]bool)
		}
		for _, q := range closed {
			k.closed[q] = true
		}
	})
}

// closeQuestion denies a question of a plugin in the plugin's name, and reports whether the history has an answer: not yet, where the
// question is not recorded yet. A question of another plugin, and one that people have answered, stay as they are.
func (a *hostAPI) closeQuestion(ctx context.Context, name string, q wire.Question) (done bool, err error) {
	if err := errors.Join(events.CheckToken("session", string(q.Session)), events.CheckToken("id", q.ID)); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(api.WithoutCaller(ctx), closeWait)
	defer cancel()
	s, err := a.service.State(ctx, q.Session)
	if errors.Is(err, events.ErrNoSession) {
		return true, nil
	}
	if err != nil || s.Turn() == nil { // without a turn there is no question
		return err == nil, err
	}
	answer := events.ToolApprovalGiven{Effect: q.Call + "/" + events.EffectID(q.ID), By: wire.CallerOf(name), Reason: withdrawnReason}
	asked := s.Turn().Approval(answer.Effect)
	switch {
	case asked == nil:
		return false, nil
	case asked.Plugin != name || asked.Answered:
		return true, nil
	}
	err = a.service.Approve(ctx, q.Session, answer)
	if errors.Is(err, api.ErrDifferent) || errors.Is(err, api.ErrNotAsked) { // people were faster, or the turn has ended
		err = nil
	}
	return err == nil, err
}
