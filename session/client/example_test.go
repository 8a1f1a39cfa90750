package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/service"
)

// exampleNode starts a server, and a host that serves sessions as a node does. A program connects to nodes that run
// elsewhere, with the URL of their server.
func exampleNode(ctx context.Context) (server *busembed.Server, stop func(), err error) {
	dir, err := os.MkdirTemp("", "lash-")
	if err != nil {
		return nil, nil, err
	}
	if server, err = busembed.Start(busembed.Config{StoreDir: dir}); err != nil {
		return nil, nil, err
	}
	b, err := bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}})
	if err != nil {
		return nil, nil, err
	}
	host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		return nil, nil, err
	}
	end, err := service.Serve(b, host, service.Config{})
	return server, func() {
		_ = end(ctx)
		b.Close()
		server.Stop()
		_ = os.RemoveAll(dir)
	}, err
}

// exampleClient connects a client. It reads the history by itself, and sends requests that change it to a node.
func exampleClient(ctx context.Context, server *busembed.Server) (*client.Client, *bus.Bus, error) {
	b, err := bus.OpenReader(ctx, bus.Config{Options: []nats.Option{server.InProcess()}})
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(client.Config{Bus: b, Actor: "me"})
	return c, b, err
}

// A client creates a session, submits a turn and watches the history. The events are in the history when a call
// returns. A worker, which this example does not have, would run the turn; Await waits for its end.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, stop, err := exampleNode(ctx)
	if err != nil {
		panic(err)
	}
	defer stop()
	c, b, err := exampleClient(ctx, server)
	if err != nil {
		panic(err)
	}
	defer b.Close()

	id, err := c.Create(ctx, api.CreateRequest{ID: "s1"})
	fmt.Println(id, err)
	request := api.Ask("What is 2 + 2?")
	request.ID = "t1"
	turn, err := c.Submit(ctx, id, request)
	fmt.Println(turn, err)
	page, err := c.Turns(ctx, id, api.Page{})
	fmt.Println(page.Turns[0].ID, page.Turns[0].Status, err)
	_, err = c.Create(ctx, api.CreateRequest{ID: "s1", Labels: map[string]string{"team": "a"}})
	fmt.Println(errors.Is(err, api.ErrExists))
	_, err = c.Await(ctx, id, "t2")
	fmt.Println(errors.Is(err, api.ErrUnknownTurn))
	// Output:
	// s1 <nil>
	// t1 <nil>
	// t1 waiting <nil>
	// true
	// true
}

// An observer has a cursor, the sequence of the last commit that it saw. With the cursor it goes on after a
// disconnection, and misses no commit.
func ExampleClient_Observe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, stop, err := exampleNode(ctx)
	if err != nil {
		panic(err)
	}
	defer stop()
	c, b, err := exampleClient(ctx, server)
	if err != nil {
		panic(err)
	}
	defer b.Close()
	if _, err := c.Create(ctx, api.CreateRequest{ID: "s1"}); err != nil {
		panic(err)
	}

	var cursor events.Seq
	watch := func() {
		for seen, err := range c.Observe(ctx, "s1", cursor) {
			if err != nil {
				panic(err)
			}
			if seen.Commit != nil {
				cursor = seen.Seq
				fmt.Println(cursor, seen.Commit.Events[0].Kind)
				return // as when the connection is lost
			}
		}
	}
	watch()
	if err := c.CloseSession(ctx, "s1", "done"); err != nil {
		panic(err)
	}
	watch()
	// Output:
	// 1 session.opened
	// 2 session.closed
}
