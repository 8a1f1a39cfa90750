package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// busSource reads a server: a running one, or one that it starts on a store. It implements [source].
type busSource struct {
	*bus.Bus
	running bool   // others may write to it
	end     func() // closes the bus and ends its server
}

func openServer(ctx context.Context, f *sourceFlags, url, store string, keys *bodykey.Keys, s *program.Streams) (*busSource, error) {
	opts, err := f.Options(url, store, s.Err)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	b, err := connect.Open(bounded, bus.OpenReader, bus.Config{
		URL: url, Options: opts, Name: "lash-replay", Prefix: f.Prefix, Inbox: f.Inbox, Keys: keys, Pending: connect.Pending(s, url), Logger: f.logger,
	}, f.NATS != "")
	if err != nil {
		return nil, f.Explain(err, connect.Auditor, "is the node running? --store DIR reads the store of one, whether it runs or not")
	}
	return &busSource{b, true, b.Close}, nil
}

// openWait bounds the first response of the servers.
const openWait = 30 * time.Second

// openStore starts a server in this process. It creates no store. It reads the store of a running node through that node's server.
func openStore(ctx context.Context, f *sourceFlags, keys *bodykey.Keys, s *program.Streams) (*busSource, error) {
	if !isStore(f.Store) {
		return nil, fmt.Errorf("%s: there is no store here: --store names the directory that a node keeps its histories in", f.Store)
	}
	wait := s.WaitNoter("the store in %s to be read", f.Store)
	over := wait()
	server, err := busembed.Start(busembed.Config{StoreDir: f.Store})
	over()
	if errors.Is(err, busembed.ErrInUse) {
		if own, accessErr := busembed.ReadAccess(f.Store); accessErr == nil && own.URL != "" {
			return openServer(ctx, f, own.URL, f.Store, keys, s)
		}
		return nil, fmt.Errorf("%s: %w: stop it first, or read from it with --nats URL", f.Store, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Store, err)
	}
	bounded, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	b, err := bus.OpenReader(bounded, bus.Config{Options: []nats.Option{server.InProcess()}, Name: "lash-replay", Prefix: f.Prefix, Keys: keys, Pending: wait})
	if err != nil {
		server.Stop()
		return nil, f.Explain(err, connect.Auditor, "is it a node's store?")
	}
	return &busSource{b, false, func() { b.Close(); server.Stop() }}, nil
}

func isStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && info.IsDir()
}

// Log has what is left of a session that has lost commits.
func (l *busSource) Log() events.Log { return l.Bus.Log().Remaining() }

func (l *busSource) Lost(ctx context.Context, session events.SessionID) error {
	_, err := l.Bus.Log().Last(ctx, session)
	return err
}

func (l *busSource) Sessions(ctx context.Context) ([]events.SessionID, error) {
	var list []events.SessionID
	for id, err := range l.Bus.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if _, err := l.Bus.Log().Last(ctx, id); errors.Is(err, events.ErrNoSession) && !errors.As(err, new(*events.ErasedError)) {
			continue // its creator died before the first commit
		}
		list = append(list, id)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Names lists without a request for each session.
func (l *busSource) Names(ctx context.Context) (list []events.SessionID, err error) {
	for id, err := range l.Bus.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

func (l *busSource) Candidates(ctx context.Context, plan *index.Plan) (map[events.SessionID]*index.Row, error) {
	return follow.Candidates(ctx, l.Bus, plan)
}

func (l *busSource) Snapshot(ctx context.Context, session events.SessionID) (*follow.Snapshot, error) {
	stored, err := follow.Stored(ctx, l.Bus, session)
	if errors.Is(err, events.ErrLocked) {
		return nil, nil //nolint:nilnil // to a reader without the key there is none
	}
	return stored, err
}

// Row compares the row with the session's end: an older row would hide newer commits.
func (l *busSource) Row(ctx context.Context, session events.SessionID) (*follow.Directory, error) {
	stored, err := l.Directory().Get(ctx, session)
	if errors.Is(err, events.ErrLocked) {
		return nil, nil //nolint:nilnil // the caller reads the history
	}
	if err != nil || stored.Revision == 0 {
		return nil, err
	}
	last, err := l.Log().Last(ctx, session)
	if err != nil {
		return nil, err
	}
	var row follow.Directory
	if json.Unmarshal(stored.Value, &row) != nil || row.Seq != last || row.Erased != nil {
		return nil, nil //nolint:nilnil // the caller reads the history instead
	}
	return &row, nil
}

func (l *busSource) State(ctx context.Context, session events.SessionID) (*projector.State, error) {
	s, err := follow.Open(ctx, l.Bus, session)
	if errors.Is(err, events.ErrLocked) || errors.As(err, new(*bus.CutOffError)) { // what can be read
		return follow.ReadAt(ctx, l.Log(), l, session, math.MaxUint64)
	}
	return s, err
}

func (l *busSource) Close() { l.end() }
