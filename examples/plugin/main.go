// Command plugin is a plugin as a program of its own. It is connected to NATS only, and its tool runs in this process.
//
//	go run ./examples/plugin .lash/plugins/weather.json
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/lash-go/lash/examples/tool"
	"github.com/lash-go/lash/session/plugin/remote"
)

func main() {
	if err := run(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	conn, err := remote.Connect(file)
	if err != nil {
		return err
	}
	defer conn.Close()
	instance, err := remote.Start(ctx, remote.Config{Conn: conn, Plugin: tool.Weather(), Version: "1.0.0", Logger: zap.Must(zap.NewProduction())})
	if errors.Is(err, context.Canceled) {
		return nil // it was stopped before a node answered
	}
	if err != nil {
		return err
	}
	fmt.Println("plugin: serving the tool weather; stop with ctrl-c")
	return instance.Run(ctx)
}
