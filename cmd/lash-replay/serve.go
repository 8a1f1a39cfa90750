package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
)

type serveCmd struct{}

// Help is shown by --help.
func (*serveCmd) Help() string {
	return `Answers what auditors read, on servers with the accounts of deploy/nats. Auditors reach neither the servers' store nor a node: this command reads for
them, with a certificate of role reader, which can write nothing. Run it where the servers run, and not on a machine of a node. Any number may run. It makes
at most four requests to the servers at once. Auditors beyond that wait, and who sends too many or other requests is refused and named on standard error.

It ends with ctrl-c.`
}

// auditsAtOnce bounds the requests to servers that are under way for auditors.
const auditsAtOnce = 4

// Run answers reads until ctx ends, or the servers close the connection for good.
func (c *serveCmd) Run(ctx context.Context, e *env) error {
	if e.source.NATS == "" || e.source.Store != "" || e.source.File != "" {
		return errors.New("want --nats URL, and no other source: the reads of auditors arrive at servers")
	}
	log, err := e.Logger(zap.NewProductionConfig())
	if err != nil {
		return err
	}
	e.source.logger = log
	src, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	defer src.Close()
	server := src.(*busSource) // --nats has no other
	stop, err := server.ServeReads(bus.Auditors, auditsAtOnce)
	if err != nil {
		return err
	}
	defer stop()
	e.println("serving the reads of auditors; stop with ctrl-c")
	if err := e.Flush(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Ended():
		return err
	}
}
