package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// busSource reads a server: a running one, or one that it starts on a store. It implements [source].
type busSource struct {
	*bus.Bus
	servers   []*busembed.Server // none where the server runs already
	temporary string             // directory that Close deletes; empty: none
}

func openServer(ctx context.Context, f *sourceFlags, url, store string, s *program.Streams) (*busSource, error) {
	opts, err := f.Options(url, store, s.Err)
	if err != nil {
		return nil, err
	}
	keys, err := f.BodiesKeys()
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
	return &busSource{Bus: b}, nil
}

// openWait bounds the first response of the servers.
const openWait = 30 * time.Second

// During a leader election requests get no response, so each has a short limit and is repeated.
const (
	probeWait  = time.Second
	probeEvery = 50 * time.Millisecond
)

// openStore starts a server in this process, or three for a replicated store. It creates no store. It reads the store
// of a running node through that node's server.
func openStore(ctx context.Context, f *sourceFlags, s *program.Streams) (*busSource, error) {
	keys, err := f.BodiesKeys()
	if err != nil {
		return nil, err
	}
	wait := s.WaitNoter("the store in %s to be read", f.Store)
	over := wait()
	servers, cfg, err := boot(f.Store)
	over()
	if errors.Is(err, busembed.ErrInUse) {
		if own, accessErr := busembed.ReadAccess(f.Store); accessErr == nil && own.URL != "" {
			return openServer(ctx, f, own.URL, f.Store, s)
		}
		return nil, fmt.Errorf("%s: %w: stop it first, or read from it with --nats URL", f.Store, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Store, err)
	}
	l := &busSource{servers: servers}
	cfg.Name, cfg.Prefix, cfg.Keys, cfg.Pending = "lash-replay", f.Prefix, keys, wait
	bounded, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if l.Bus, err = bus.OpenReader(bounded, cfg); err == nil && len(servers) > 1 {
		err = l.elected(bounded)
	}
	if err != nil {
		l.Close()
		return nil, f.Explain(err, connect.Auditor, "is it a node's store?")
	}
	return l, nil
}

func boot(dir string) ([]*busembed.Server, bus.Config, error) {
	if isStore(dir) {
		server, err := busembed.Start(busembed.Config{StoreDir: dir})
		if err != nil {
			return nil, bus.Config{}, err
		}
		return []*busembed.Server{server}, bus.Config{Options: []nats.Option{server.InProcess()}}, nil
	}
	for _, name := range []string{"s1", "s2", "s3"} { // the names of StartCluster
		if !isStore(filepath.Join(dir, name)) {
			return nil, bus.Config{}, errors.New("there is no store here: --store names the directory that a node keeps its histories in")
		}
	}
	servers, err := busembed.StartCluster(dir)
	return servers, bus.Config{URL: busembed.URLs(servers), Timeout: probeWait}, err
}

func isStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && info.IsDir()
}

// elected waits until every history of a replicated store has a leader.
func (l *busSource) elected(ctx context.Context) error {
	var ids []events.SessionID
	err := insist(ctx, func(ctx context.Context) (err error) {
		ids, err = l.Sessions(ctx)
		return err
	})
	for i := 0; i < len(ids) && err == nil; i++ {
		err = insist(ctx, func(ctx context.Context) error {
			_, err := l.Log().Last(ctx, ids[i])
			return err
		})
	}
	return err
}

// insist repeats a request that gets no response during a leader election.
func insist(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, probeWait)
		err := ask(once)
		cancel()
		if !errors.Is(err, events.ErrOutcomeUnknown) {
			return err
		}
		if !delay.Sleep(ctx, probeEvery) {
			return err
		}
	}
}

func (l *busSource) Log() events.Log { return l.Bus.Log() }

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

func (l *busSource) Index(ctx context.Context) iter.Seq2[[]byte, error] {
	rows, ok := l.Bus.Index()
	if !ok {
		return func(func([]byte, error) bool) {}
	}
	return rows.Values(ctx)
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
	last, err := l.Bus.Log().Last(ctx, session)
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
	if errors.Is(err, events.ErrLocked) { // what can be read without the key
		return follow.ReadAt(ctx, l.Bus.Log(), l, session, math.MaxUint64)
	}
	return s, err
}

func (l *busSource) Close() {
	if l.Bus != nil {
		l.Bus.Close()
	}
	for _, s := range l.servers {
		s.Stop()
	}
	if l.temporary != "" {
		_ = os.RemoveAll(l.temporary) // of copies; the system's cleaning removes what stays
	}
}
