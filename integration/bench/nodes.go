package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// turnMessages is the number of messages of a whole turn: eight commits and its wake.
const turnMessages = 9

// nodes measures whole turns in 64 sessions at once, run by one, two and four node processes on a server in another
// process. It compares them with the same number of raw publishes on that server. All share the processors of the
// machine.
func (r *runner) nodes(ctx context.Context) (err error) {
	s, err := childServer(ctx, filepath.Join(r.dir, "store"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	b, host, err := newClient(ctx, bus.Config{URL: s.url})
	if err != nil {
		return err
	}
	defer b.Close()
	publish, err := rawStreams(ctx, b, r.parallel(), 1)
	if err != nil {
		return err
	}
	body := []byte(strings.Repeat("x", 1024))
	n := r.scaled(50)
	raw, err := r.rate(n*turnMessages, func(i, k int) error { return publish(i, k, body) })
	if err != nil {
		return err
	}
	raw /= turnMessages
	r.report.Raw["nodes_turns_of_messages_per_s"] = raw
	best := 0.0
	for _, f := range []struct {
		count int
		into  *float64
	}{{1, &r.report.Nodes1}, {2, &r.report.Nodes2}, {4, &r.report.Nodes4}} {
		progress("%d node processes", f.count)
		if *f.into, err = r.fleet(ctx, host, s.url, f.count, n); err != nil {
			return err
		}
		best = max(best, *f.into)
		r.report.Lash[fmt.Sprintf("nodes_%d_of_raw", f.count)] = *f.into / raw
	}
	r.report.NodesOfRaw = best / raw
	r.report.Nodes2Of1, r.report.Nodes4Of1 = r.report.Nodes2/r.report.Nodes1, r.report.Nodes4/r.report.Nodes1
	return nil
}

// fleet is the turns a second of count node processes, in new sessions.
func (r *runner) fleet(ctx context.Context, host *session.Host, url string, count, n int) (perSecond float64, err error) {
	id := func(i int) events.SessionID { return sessionID(fmt.Sprintf("of%d-", count), i) }
	for i := range r.parallel() {
		if _, err := host.Create(ctx, api.CreateRequest{ID: id(i)}); err != nil {
			return 0, err
		}
	}
	for range count {
		node, err := startChild(ctx, apartNode, url)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, node.stop()) }()
	}
	return r.rate(n, func(i, _ int) error { return runTurn(ctx, host, id(i)) })
}
