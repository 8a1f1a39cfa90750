package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// exampleBus starts a server in this process. A program with a NATS server of its own opens the bus with a URL.
func exampleBus(ctx context.Context) (b *bus.Bus, stop func(), err error) {
	dir, err := os.MkdirTemp("", "lash-")
	if err != nil {
		return nil, nil, err
	}
	server, err := busembed.Start(busembed.Config{StoreDir: dir})
	if err != nil {
		return nil, nil, err
	}
	if b, err = bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}}); err != nil {
		server.Stop()
		return nil, nil, err
	}
	return b, func() {
		b.Close()
		server.Stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// A host creates a session and accepts a turn. The turn is in the history when Submit returns, and waits there for a
// worker.
func ExampleNew() {
	ctx := context.Background()
	b, stop, err := exampleBus(ctx)
	if err != nil {
		panic(err)
	}
	defer stop()
	host, err := session.New(session.Config{Bus: b, Actor: "me", Plugins: session.NoPlugins()})
	if err != nil {
		panic(err)
	}
	id, err := host.Create(ctx, api.CreateRequest{ID: "s1"})
	fmt.Println(id, err)
	request := api.Ask("What is 2 + 2?")
	request.ID = "t1"
	turn, err := host.Submit(ctx, id, request)
	fmt.Println(turn, err)

	for seen, err := range host.Observe(ctx, id, 0) {
		if err != nil {
			panic(err)
		}
		for _, e := range seen.Commit.Events {
			fmt.Println(seen.Seq, e.Kind)
			if e.Kind == events.KindTurnRequested {
				return
			}
		}
	}
	// Output:
	// s1 <nil>
	// t1 <nil>
	// 1 session.opened
	// 2 turn.requested
}

// A repeated request has the same answer, from any host, and appends nothing. The same id with other content is an
// error that errors.Is finds.
func ExampleHost_Submit() {
	ctx := context.Background()
	b, stop, err := exampleBus(ctx)
	if err != nil {
		panic(err)
	}
	defer stop()
	var hosts []*session.Host
	for range 2 {
		host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
		if err != nil {
			panic(err)
		}
		hosts = append(hosts, host)
	}
	if _, err := hosts[0].Create(ctx, api.CreateRequest{ID: "s1"}); err != nil {
		panic(err)
	}

	request := api.Ask("What is 2 + 2?")
	request.ID = "t1"
	for _, host := range hosts {
		turn, err := host.Submit(ctx, "s1", request)
		fmt.Println(turn, err)
	}
	request.Input = api.Ask("And 2 + 3?").Input
	_, err = hosts[0].Submit(ctx, "s1", request)
	fmt.Println(errors.Is(err, api.ErrDifferent))
	_, err = hosts[0].Submit(ctx, "s2", request)
	fmt.Println(errors.Is(err, events.ErrNoSession))
	state, err := hosts[1].State(ctx, "s1")
	fmt.Println(state.Seq, err)
	// Output:
	// t1 <nil>
	// t1 <nil>
	// true
	// true
	// 2 <nil>
}
