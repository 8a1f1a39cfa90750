package bench

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// fork forks sessions of 10 and of 100 000 events that have snapshots.
func (r *runner) fork(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		host, err := session.New(session.Config{Bus: b, Actor: "bench", Plugins: session.NoPlugins()})
		if err != nil {
			return err
		}
		short, long := 10, r.scaled(100000)
		for _, n := range []int{short, long} {
			if _, err := history(ctx, b.Log(), sessionID("events", n), n); err != nil {
				return err
			}
			state, err := follow.Whole(ctx, b, sessionID("events", n))
			if err != nil {
				return err
			}
			if _, err := follow.Save(ctx, b, state); err != nil {
				return err
			}
		}
		p50 := make(map[int]*samples)
		for range r.scaled(400) {
			for _, n := range []int{short, long} {
				if p50[n] == nil {
					p50[n] = &samples{}
				}
				err := p50[n].timed(func() error {
					_, err := host.Fork(ctx, sessionID("events", n), api.CreateRequest{})
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		r.report.Lash["fork_10_p50_ms"], r.report.Lash["fork_100k_p50_ms"] = p50[short].p50(), p50[long].p50()
		r.report.Fork100kOver10 = p50[long].p50() / p50[short].p50()
		return nil
	})
}
