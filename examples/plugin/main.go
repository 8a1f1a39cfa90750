// Command plugin is a plugin as a program of its own. It is connected to NATS only, and its tool runs in this process. Its
// argument is the file with its connection. Without one the variables LASH_PLUGIN… say how to connect.
//
//	go run ./examples/plugin .lash/plugins/weather.json
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/lash-go/lash/examples/tool"
	"github.com/lash-go/lash/session/plugin/remote"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var cfg remote.Config
	var err error
	switch {
	case len(args) == 1 && strings.HasPrefix(args[0], "-"):
		err = errors.New("usage: plugin [FILE], as .lash/plugins/weather.json")
	case len(args) == 1:
		cfg.Conn, err = remote.Connect(args[0])
	default:
		_, cfg, err = remote.FromEnv(os.Getenv)
	}
	if err != nil {
		return err
	}
	defer cfg.Conn.Close()
	cfg.Plugin, cfg.Version, cfg.Logger = tool.Weather(), "1.0.0", zap.Must(zap.NewProduction())
	instance, err := remote.Start(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		return nil // it was stopped before a node answered
	}
	if err != nil {
		return err
	}
	fmt.Println("plugin: serving the tool weather; stop with ctrl-c")
	return instance.Run(ctx)
}
