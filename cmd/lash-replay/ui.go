package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	sessionarchive "github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/webpage"
	"github.com/lash-go/lash/workers/prices"
)

type uiCmd struct {
	Files    []string `arg:"" optional:"" name:"archive" help:"Archives, or folders with them, instead of a server or a store."`
	Listen   string   `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the page, on this machine. Port 0 takes a free one. Default: ${default}."`
	Auditors bool     `help:"Instead of a page: answer what auditors read, at --nats."`
	JSON     bool     `name:"json" help:"Print the URL and the token as one JSON object."`
}

// Help is shown by --help.
func (*uiCmd) Help() string {
	return `Serves a web page that shows sessions: as conversations, timelines, graphs and lists of events, at any point of their time. The page of a running
server follows what happens. It only shows: lash-node serve --http has the page that also talks to sessions and answers approvals.

The page asks for the token that the command prints, because other users of this machine reach the address too. Ctrl-c ends the command.
Archives are put into a temporary server, which is deleted at the end. Of redacted ones the page shows what is left, and by whom and why the rest was redacted. Costs are by the prices of this build.

With --auditors it answers what auditors read, on servers with the accounts of deploy/nats. Auditors reach neither the servers' store nor a node: this command
reads for them, with a certificate of role reader, which can write nothing. Run it where the servers run, and not on a machine of a node. Any number may run.
It makes at most four requests to the servers at once. Auditors beyond that wait, and who sends too many or other requests is refused and named on standard error.`
}

// uiStop limits the time in which requests may end after ctrl-c.
const uiStop = 3 * time.Second

// Run serves the page until ctx ends.
func (c *uiCmd) Run(ctx context.Context, e *env) error {
	if c.Auditors {
		return e.serveReads(ctx)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if !busembed.Loopback(host) {
		return fmt.Errorf("--listen %s: the page is for this machine: listen on 127.0.0.1, ::1 or localhost, and reach it from elsewhere through ssh -L; or give other people the page of lash-node serve --http with TLS", c.Listen)
	}
	list, err := prices.Default()
	if err != nil {
		return err
	}
	if e.source.At != "" {
		return errors.New("--at: the page moves through time by itself")
	}
	src, name, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer src.Close()
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	token := rand.Text()
	server, err := pageServer(src.Bus, name, token, list)
	if err != nil {
		_ = on.Close()
		return err
	}
	server.Start(on)
	defer func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), uiStop) // ctx has ended
		defer cancel()
		server.Stop(soon)
	}()
	if err := c.print(e, "http://"+on.Addr().String()+"/", name, token); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// readsAtOnce bounds the requests to servers that are under way for auditors.
const readsAtOnce = 4

// serveReads answers the reads of auditors until ctx ends, or the servers close the connection for good.
func (e *env) serveReads(ctx context.Context) error {
	if e.source.NATS == "" {
		return errors.New("want --nats URL, and no other source: the reads of auditors arrive at servers")
	}
	var err error
	if e.source.logger, err = e.Logger(zap.NewProductionConfig()); err != nil {
		return err
	}
	src, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	defer src.Close()
	server := src.(*busSource) //nolint:forcetypeassert // --nats has no other
	stop, err := server.ServeReads(bus.Auditors, readsAtOnce)
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

func (c *uiCmd) print(e *env, url, name, token string) (err error) {
	if c.JSON {
		err = json.NewEncoder(e.Out).Encode(map[string]string{"url": url, "token": token, "source": name})
	} else {
		e.printf("page  %s  of %s; stop with ctrl-c\ntoken %s\n", url, name, token)
	}
	return errors.Join(err, e.Flush())
}

// open opens the source, as a server.
func (c *uiCmd) open(ctx context.Context, e *env) (*busSource, string, error) {
	files := c.Files
	if e.source.File != "" {
		files = append(files, e.source.File)
	}
	e.source.defaults(files...)
	if len(files) > 0 {
		if e.source.NATS != "" || e.source.Store != "" {
			return nil, "", errors.New("archives and --nats or --store exclude each other: give one")
		}
		return openArchives(ctx, e, files)
	}
	src, err := e.open(ctx, "")
	if err != nil {
		return nil, "", err
	}
	server := src.(*busSource) //nolint:forcetypeassert // no file is given
	if e.source.NATS != "" {
		return server, "the server " + bus.WithoutPasswords(e.source.NATS), nil
	}
	return server, "the store " + e.source.Store, nil
}

// openArchives puts archives into a temporary server.
func openArchives(ctx context.Context, e *env, files []string) (src *busSource, name string, err error) {
	list, err := program.Archives(files)
	if err != nil {
		return nil, "", err
	}
	keys, err := e.source.BodiesKeys()
	if err != nil {
		return nil, "", err
	}
	b, end, err := connect.Temporary(ctx, "lash-replay", keys)
	if err != nil {
		return nil, "", err
	}
	src = &busSource{b, false, end}
	defer func() {
		if err != nil {
			src.Close()
		}
	}()
	defer e.NoteWait("%s to be read", program.Number(int64(len(list)), "archive"))()
	for _, file := range list {
		a, err := openArchive(file, e.source.MaxMiB, keys)
		if err != nil {
			return src, "", err
		}
		if err := sessionarchive.RestoreToRead(ctx, src.Bus, a.file); err != nil {
			return src, "", fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(list) == 1 {
		return src, "the archive " + transcript.VisibleLine(filepath.Base(list[0])), nil
	}
	return src, program.Number(int64(len(list)), "archive"), nil
}

// pageServer serves the page and the reads of the API to the bearer of a token.
func pageServer(b *bus.Bus, name, token string, list *prices.Prices) (*httpapi.Server, error) {
	c, err := client.New(client.Config{Bus: b})
	if err != nil {
		return nil, err
	}
	page, err := webpage.New(webpage.Settings{ReadOnly: true, Prices: true, Source: true})
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{
		Service: reader{c}, Page: page, Tokens: []httpapi.Token{{Name: "ui", Digest: sha256.Sum256([]byte(token)), Scope: api.ScopeRead}},
		Prices: func() json.RawMessage { return list.JSON() }, Source: name, Redactions: b.Redactions,
	})
}

// reader is a client whose caller may only read. The server refuses everything else by the caller's rights.
type reader struct{ *client.Client }

var errOnlyRead = fmt.Errorf("%w: lash-replay ui only reads", api.ErrForbidden)

// SubmitTurn implements [operation.Host].
func (reader) SubmitTurn(context.Context, events.SessionID, api.TurnRequest) (api.SubmitResponse, error) {
	return api.SubmitResponse{}, errOnlyRead
}

// WatchTurn implements [operation.Host].
func (reader) WatchTurn(context.Context, events.SessionID, events.TurnID) (iter.Seq2[api.SessionEvent, error], error) {
	return nil, errOnlyRead
}

// RestoreSnapshot implements [operation.Host].
func (reader) RestoreSnapshot(context.Context, []byte, [][]byte) (*projector.State, error) {
	return nil, errOnlyRead
}

// TakeMonitorUpdatesTo implements [operation.Host].
func (reader) TakeMonitorUpdatesTo(context.Context, events.SessionID, int64) (api.MonitorUpdates, error) {
	return api.MonitorUpdates{}, errOnlyRead
}

// Complete implements [operation.Host].
func (reader) Complete(context.Context, events.SessionID, plugin.CompletionRequest, string) (plugin.Completion, error) {
	return plugin.Completion{}, errOnlyRead
}
