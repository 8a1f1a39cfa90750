package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// fetchTimers is how many timers one pull asks for.
const fetchTimers = 32

// timerLoop puts the commands of timers in the queue when their time has come.
// A worker that dies over it leaves the timer to another.
func (w *Worker) timerLoop(ctx context.Context, due *bus.Due) {
	for ctx.Err() == nil {
		var ringing sync.WaitGroup
		err := due.Fetch(ctx, fetchTimers, fetchWait, func(t *bus.DueTimer) {
			ringing.Go(func() { w.ring(ctx, t) })
		})
		ringing.Wait()
		if err != nil && ctx.Err() == nil {
			w.log.Warn("fetch timers", zap.Error(err))
			bus.Sleep(ctx, time.Second)
		}
	}
}

// ringAgain is when a timer comes again whose command could not be queued.
const ringAgain = time.Second

func (w *Worker) ring(ctx context.Context, t *bus.DueTimer) {
	log := w.log.With(zap.String("session", string(t.Session)), zap.String("timer", t.ID))
	alarm, err := session.DecodeAlarm(t.Body)
	if err != nil {
		err = w.cfg.Bus.PutDead(ctx, &bus.DeadLetter{
			Class: bus.ClassTurn, Session: t.Session, ID: t.ID, Body: t.Body, Reason: bus.DeadUnread, Error: deadText(err),
			Attempts: 1, At: events.MillisOf(time.Now()), Worker: w.cfg.ID,
		})
	} else {
		err = w.host.Ring(ctx, t.Session, alarm)
	}
	switch {
	case errors.Is(err, events.ErrNoSession), errors.Is(err, session.ErrClosed):
		log.Info("timer dropped", zap.Error(err))
		_ = t.Ack()
	case err != nil:
		if ctx.Err() == nil {
			log.Warn("ring timer", zap.Error(err))
		}
		_ = t.GiveBack(ringAgain)
	default:
		_ = t.Ack()
	}
}
