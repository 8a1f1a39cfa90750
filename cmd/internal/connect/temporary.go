package connect

import (
	"context"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events/bodykey"
)

// Temporary starts a server on a store of its own, in which no node works. end closes the bus and deletes the store.
func Temporary(ctx context.Context, name string, keys *bodykey.Keys) (b *bus.Bus, end func(), err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) } // of copies; the system's cleaning removes what stays
	server, err := busembed.Start(busembed.Config{StoreDir: dir})
	if err != nil {
		remove()
		return nil, nil, err
	}
	stop := func() {
		server.Stop()
		remove()
	}
	if b, err = bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Name: name, Keys: keys}); err != nil {
		stop()
		return nil, nil, err
	}
	return b, func() { b.Close(); stop() }, nil
}
