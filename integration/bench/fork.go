package main

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
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
		short, long, err := r.withBoth(ctx, b, r.scaled(100000), func(id events.SessionID, _ int) error {
			_, err := host.Fork(ctx, id, api.CreateRequest{})
			return err
		})
		if err != nil {
			return err
		}
		r.report.Lash["fork_10_p50_ms"], r.report.Lash["fork_100k_p50_ms"] = short.p50(), long.p50()
		r.report.Fork100kOver10 = long.p50() / short.p50()
		return nil
	})
}
