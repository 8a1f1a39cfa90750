package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// submits measures a submit of 1 KiB until its response, by a host that has the session's state, and a raw publish of
// the same bytes. No node runs: each turn is cancelled before the next submit.
func (r *runner) submits(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		publish, err := rawStreams(ctx, b, 1, 1)
		if err != nil {
			return err
		}
		host, err := session.New(session.Config{Bus: b, Actor: "bench", Plugins: session.NoPlugins()})
		if err != nil {
			return err
		}
		if _, err := host.Create(ctx, api.CreateRequest{ID: "s"}); err != nil {
			return err
		}
		body := strings.Repeat("x", 1024)
		input := events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: body}}}
		var raw, lash samples
		for k := range r.scaled(1000) {
			turn := events.TurnID(fmt.Sprintf("t%d", k))
			err := raw.timed(func() error { return publish(0, k, []byte(body)) })
			if err != nil {
				return err
			}
			err = lash.timed(func() error {
				_, err := host.Submit(ctx, "s", api.TurnRequest{ID: turn, Input: input})
				return err
			})
			if err != nil {
				return err
			}
			if _, _, err := host.Cancel(ctx, "s", turn, api.CancelRequest{}); err != nil {
				return err
			}
		}
		r.report.Raw["submit_append_p50_ms"], r.report.Lash["submit_p50_ms"] = raw.p50(), lash.p50()
		r.report.SubmitRatio = lash.p50() / raw.p50()
		return nil
	})
}
