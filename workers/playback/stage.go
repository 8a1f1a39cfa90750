package playback

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// StageConfig configures [Open].
type StageConfig struct {
	Dir     string           // of the store. Defaults to a temporary one, which Close removes
	Servers int              // 3: a cluster that replicates everything. Defaults to 1
	Profile busembed.Profile // of one server. Defaults to [busembed.ProfileInterval]
	Keys    *bodykey.Keys    // encrypt the histories; nil leaves them plain
	Actor   string           // of the client's commits. Defaults to "import"
}

// Stage has what plays recordings: servers, a client, and nodes whose models and tools are the recorded ones.
type Stage struct {
	Player *Player
	Host   *session.Host // of the client
	Bus    *bus.Bus      // likewise

	cfg     StageConfig
	temp    string // directory to remove
	servers []*busembed.Server
	buses   []*bus.Bus
	nodes   []*workers.Node
}

// Open starts the servers and the client. The caller closes the stage.
func Open(ctx context.Context, cfg StageConfig) (s *Stage, err error) {
	s = &Stage{cfg: cfg}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if cfg.Actor == "" {
		s.cfg.Actor = "import"
	}
	if cfg.Dir == "" {
		if s.temp, err = os.MkdirTemp("", "lash-playback-"); err != nil {
			return s, err
		}
		s.cfg.Dir = s.temp
	}
	if cfg.Servers == 3 {
		s.servers, err = busembed.StartCluster(s.cfg.Dir)
	} else {
		s.servers = make([]*busembed.Server, 1)
		s.servers[0], err = busembed.Start(busembed.Config{StoreDir: s.cfg.Dir, Profile: cfg.Profile})
	}
	if err != nil {
		s.servers = nil
		return s, err
	}
	if s.Bus, err = s.connect(ctx); err != nil {
		return s, err
	}
	s.Host, err = session.New(session.Config{Bus: s.Bus, Actor: s.cfg.Actor, Plugins: session.NoPlugins()})
	s.Player = NewPlayer(s.Host)
	return s, err
}

// connect opens a bus of its own, as another process would.
func (s *Stage) connect(ctx context.Context) (*bus.Bus, error) {
	cfg := bus.Config{Options: []nats.Option{s.servers[0].InProcess()}, Keys: s.cfg.Keys}
	if len(s.servers) == 3 {
		cfg = bus.Config{URL: busembed.URLs(s.servers), Replicas: 3, Keys: s.cfg.Keys}
	}
	b, err := bus.Open(ctx, cfg)
	if err == nil {
		s.buses = append(s.buses, b)
	}
	return b, err
}

// Work starts nodes. The player has every plan of a session in the store: its turns may run at once.
func (s *Stage) Work(ctx context.Context, nodes int) error {
	for range nodes {
		b, err := s.connect(ctx)
		if err != nil {
			return err
		}
		node, err := workers.NewNode(workers.Config{
			Bus: b, Provider: "scripted", Tools: s.Player.Tools, Providers: map[string]llm.Provider{"scripted": s.Player.Provider()},
		})
		if err == nil {
			err = node.Start(ctx)
		}
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, node)
	}
	return nil
}

// Conflicts is the number of appends that were too late, of all connections.
func (s *Stage) Conflicts() (n int64) {
	for _, b := range s.buses {
		n += b.Conflicts()
	}
	return n
}

// stopGrace bounds how long running turns may continue before they return to the queue.
const stopGrace = 5 * time.Second

// Close stops everything.
func (s *Stage) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace) // also after the caller's context has ended
	defer cancel()
	for _, n := range s.nodes {
		n.Stop(ctx)
	}
	for _, b := range s.buses {
		b.Close()
	}
	for _, server := range s.servers {
		server.Stop()
	}
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
	}
}

// Convert plays a plan and returns the history, which equals the recording. It starts a node if there is none.
func (s *Stage) Convert(ctx context.Context, plan *Plan) (*events.Archive, error) {
	err := s.Player.Add(plan)
	if err == nil && s.nodes == nil {
		err = s.Work(ctx, 1)
	}
	if err == nil {
		err = s.Player.Play(ctx, plan, nil)
	}
	if err != nil {
		return nil, err
	}
	state, err := s.Host.State(ctx, plan.Session)
	if err != nil {
		return nil, err
	}
	if diff, err := Compare(ctx, s.Bus, plan, state); diff != nil || err != nil {
		if err == nil {
			err = diff
		}
		return nil, err
	}
	var file bytes.Buffer
	_, err = archive.Write(ctx, s.Bus.Log(), s.Bus, plan.Session, &file)
	a, unread := events.ReadArchive(&file, math.MaxInt64)
	return a, errors.Join(err, unread)
}
