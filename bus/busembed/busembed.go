// Package busembed runs a NATS server inside the process. It is the only package that imports the server, which is
// three quarters of a linked program's size. It imports no other package of this module.
//
// A server has one store directory, which it locks: [ErrInUse]. Before the server starts, its files are repaired
// where the server was killed between two of them. An acknowledged append survives what the [Profile] says.
package busembed

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// Profile says what an acknowledged append survives; see package bus.
type Profile string

// Values of [Profile].
const (
	ProfileInterval Profile = "interval"
	ProfileAlways   Profile = "always"
	ProfileCluster  Profile = "cluster"
)

// Guarantee describes what an acknowledged append survives, for the program's output.
func (p Profile) Guarantee() string {
	switch p {
	case ProfileInterval:
		return "survives any process crash; a power cut loses at most the last 100 ms"
	case ProfileAlways:
		return "survives any process crash and any power cut"
	case ProfileCluster:
		return "survives any process crash and the loss of one of three servers"
	}
	return "unknown profile"
}

// Config of an embedded server.
type Config struct {
	StoreDir string  // required
	Profile  Profile // Defaults to ProfileInterval
	Listen   bool    // on a TCP port; otherwise only this process can connect
	Keyed    bool    // connections need the key in the store, see [Access]; not in a cluster
	// Plugins each have an account of their own, with their subjects only, and a key in the store, see [PluginFile]. The
	// server needs Keyed.
	Plugins []string
	Prefix  string // of the plugins' subjects. Defaults to [events.DefaultPrefix]

	Host    string // Defaults to 127.0.0.1; an address that is not loopback needs Exposed
	Exposed bool   // Host may be an address that other machines reach
	Port    int    // 0 picks a free one
	Name    string // of the server, required in a cluster

	Logger *zap.Logger // of what the server reports as an error. nil is silent

	ClusterName string   // with Routes, makes the server part of a cluster
	ClusterPort int      // of this server
	Routes      []string // host:port of every server of the cluster
	FixedRoutes bool     // servers connect over Routes only, and not to addresses that other servers announce
}

// Server is a running embedded server.
type Server struct {
	ns       *server.Server
	storeDir string
	lock     *os.File           // of the store directory
	made     string             // the store directory, where Start made it; empty: it existed
	access   *Access            // nil: the server accepts every connection
	plugins  map[string]*Access // by name
	syncer   *syncer            // nil: the server syncs by itself
}

// Start boots a server and waits until it accepts connections. [ErrInUse]: the store directory has a running server.
func Start(cfg Config) (*Server, error) {
	s, err := start(cfg)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	return s, nil
}

func start(cfg Config) (*Server, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("store directory is required")
	}
	opts, err := cfg.options()
	if err = errors.Join(err, cfg.checkPlugins()); err != nil {
		return nil, err
	}
	s := &Server{storeDir: cfg.StoreDir}
	if s.made, err = makeStore(cfg.StoreDir); err != nil {
		return nil, err
	}
	if s.lock, err = lock(cfg.StoreDir); err != nil {
		return nil, err
	}
	if err := s.prepare(cfg, opts); err != nil {
		s.removeMade()
		unlock(s.lock)
		return nil, err
	}
	if err := s.bootWith(cfg); err != nil {
		s.Discard()
		return nil, err
	}
	return s, nil
}

// prepare makes the server without starting it.
func (s *Server) prepare(cfg Config, opts *server.Options) (err error) {
	if err := repair(filepath.Clean(cfg.StoreDir)); err != nil {
		return fmt.Errorf("repair store: %w", err)
	}
	if cfg.Keyed {
		if err := s.requireKey(cfg.StoreDir, opts); err != nil {
			return err
		}
	}
	if err := s.addPlugins(cfg, opts); err != nil {
		return err
	}
	s.ns, err = server.NewServer(opts)
	return err
}

// bootWith starts the server with its companions: the access file and the syncer.
func (s *Server) bootWith(cfg Config) (err error) {
	if err := s.boot(cfg.Logger); err != nil {
		return err
	}
	if s.access != nil && cfg.Listen {
		s.access.URL = s.URL()
		if err := s.access.write(AccessFile(cfg.StoreDir)); err != nil {
			return err
		}
	}
	if err := s.servePlugins(cfg); err != nil {
		return err
	}
	if cfg.syncsFilesystem() {
		s.syncer, err = startSyncer(cfg.StoreDir, s.ns)
	}
	return err
}

func (c Config) options() (*server.Options, error) {
	host := cmp.Or(c.Host, "127.0.0.1")
	if !c.Exposed && !Loopback(host) {
		return nil, fmt.Errorf("host %s: every client of an embedded server can run commands on this machine, so it listens on 127.0.0.1, ::1 or localhost only", host)
	}
	if c.Keyed && len(c.Routes) > 0 {
		return nil, errors.New("a cluster of embedded servers has no keys")
	}
	port := cmp.Or(c.Port, server.RANDOM_PORT)
	opts := &server.Options{
		ServerName: c.Name, Host: host, Port: port, DontListen: !c.Listen && len(c.Routes) == 0,
		JetStream: true, StoreDir: c.StoreDir, DisableJetStreamBanner: true,
		NoLog: true, NoSigs: true,
		SyncInterval: c.syncInterval(), SyncAlways: c.Profile == ProfileAlways,
	}
	if len(c.Routes) > 0 {
		opts.Cluster = server.ClusterOpts{
			Name: c.ClusterName, Host: host, Port: c.ClusterPort,
			PingInterval: routePingEvery, MaxPingsOut: routePingsOut,
		}
		if c.FixedRoutes {
			opts.Cluster.Advertise = closedAddress
		}
		for _, r := range c.Routes {
			u, err := url.Parse("nats-route://" + r)
			if err != nil {
				return nil, fmt.Errorf("route %s: %w", r, err)
			}
			opts.Routes = append(opts.Routes, u)
		}
	}
	return opts, nil
}

// A lost server closes no connection. Until the routes to it are cut, the other servers send it requests that any of
// them could answer. The server's default takes 90 s.
const (
	routePingEvery = 2 * time.Second
	routePingsOut  = 2
)

// closedAddress is what a server with fixed routes announces as its address: no server listens there.
const closedAddress = "127.0.0.1:1"

// URL is where clients connect over TCP; empty when the server does not listen.
func (s *Server) URL() string { return s.ns.ClientURL() }

// Name is the server's name, by which a cluster's streams name their leaders.
func (s *Server) Name() string { return s.ns.Name() }

// InProcess connects through memory instead of TCP.
func (s *Server) InProcess() nats.Option {
	if s.access == nil {
		return nats.InProcessServer(s.ns)
	}
	return func(o *nats.Options) error {
		return errors.Join(nats.InProcessServer(s.ns)(o), s.access.Option()(o))
	}
}

// Clients is how many connections the server has, those of this process included.
func (s *Server) Clients() int { return s.ns.NumClients() }

// Ready reports whether the server knows its meta leader, where it is in a cluster.
func (s *Server) Ready() bool { return s.ns.JetStreamIsCurrent() || !s.ns.JetStreamIsClustered() }

// Stop shuts down and waits. Acknowledged appends are on disk on return. A second call does nothing.
func (s *Server) Stop() {
	s.shutDown()
	unlock(s.lock)
}

// Discard is [Server.Stop] for a program whose start fails. It also removes the store directory where Start made it.
func (s *Server) Discard() {
	s.shutDown()
	s.removeMade() // under the lock: another process may want to start a server there
	unlock(s.lock)
}

func (s *Server) shutDown() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	if s.syncer != nil {
		s.syncer.stop()
	}
}

// StartCluster boots three servers on free loopback ports that replicate everything, each with its own directory
// below dir.
func StartCluster(dir string) ([]*Server, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	var routes []string
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", p))
	}
	var servers []*Server
	for i, p := range ports {
		name := fmt.Sprintf("s%d", i+1)
		s, err := Start(Config{
			StoreDir: filepath.Join(dir, name), Listen: true, Name: name,
			ClusterName: "lash", ClusterPort: p, Routes: routes, Profile: ProfileCluster,
		})
		if err != nil {
			for _, other := range servers {
				other.Stop()
			}
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// URLs are the addresses of all servers, comma-separated.
func URLs(servers []*Server) string {
	var list []string
	for _, s := range servers {
		list = append(list, s.URL())
	}
	return strings.Join(list, ",")
}
