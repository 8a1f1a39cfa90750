package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
)

// clusterSize is the number of servers. One of them at a time is disturbed.
const clusterSize = 3

// fleet has the children and their links.
type fleet struct {
	o        *options
	launch   *launcher
	servers  []*server
	nodes    []*member
	plugins  []*member // processes of the plugin
	links    []*link   // all of them
	ownURL   string
	incident *journal
}

// server is a server of the cluster. Its process changes with restarts.
type server struct {
	spec  ServerSpec
	child *child
	to    []*link // from and to the other servers
	from  []*link // from clients
}

// member is a node of the fleet or a process of the plugin. Its process changes with restarts.
type member struct {
	name  string
	group group
	url   string
	links []*link // to the servers
	runs  int
	child *child
	id    events.WorkerID // of the process: a worker, or an instance of the plugin
}

// hasEnded reports whether the member's process has ended.
func (m *member) hasEnded() bool {
	select {
	case <-m.child.ended:
		return true
	default:
		return false
	}
}

func startFleet(ctx context.Context, o *options, servers int, incidents *journal) (*fleet, error) {
	files, err := os.OpenFile(filepath.Join(o.Store, "children.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f := &fleet{o: o, launch: &launcher{files}, incident: incidents}
	if err := f.start(ctx, servers); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// start opens the links, and starts every child.
func (f *fleet) start(ctx context.Context, servers int) error {
	if err := f.openLinks(ctx, servers); err != nil {
		return err
	}
	var starting sync.WaitGroup
	errs := make([]error, servers)
	for i, s := range f.servers {
		starting.Go(func() { s.child, errs[i] = f.launch.start(ctx, Spec{Server: &s.spec}) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// The first node answers the plugin's registration; the others find the manifest at their start.
	for _, m := range slices.Concat(f.nodes[:1], f.plugins, f.nodes[1:]) {
		if err := f.startMember(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// openLinks reserves ports and opens every link.
func (f *fleet) openLinks(ctx context.Context, servers int) error {
	ports, err := busembed.FreePorts(2 * servers)
	if err != nil {
		return err
	}
	for i := range servers {
		name := fmt.Sprintf("s%d", i+1)
		f.servers = append(f.servers, &server{spec: ServerSpec{
			Name: name, Store: filepath.Join(f.o.Store, name), Port: ports[2*i], ClusterPort: ports[2*i+1],
		}})
	}
	for i, s := range f.servers {
		for j, other := range f.servers {
			if i == j {
				continue
			}
			l, err := f.link(ctx, other.spec.ClusterPort)
			if err != nil {
				return err
			}
			s.spec.Routes = append(s.spec.Routes, l.address())
			s.to, other.to = append(s.to, l), append(other.to, l)
		}
	}
	own := &member{}
	if err := f.connect(ctx, own); err != nil {
		return err
	}
	f.ownURL = own.url
	f.nodes, f.plugins = members(groupNodes, "n", f.o.Nodes), members(groupPlugins, instancePrefix, *f.o.Plugins)
	for _, m := range slices.Concat(f.nodes, f.plugins) {
		if err := f.connect(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// instancePrefix begins the ids of instances of the plugin, and no worker's.
const instancePrefix = "p"

func isInstance(id events.WorkerID) bool { return strings.HasPrefix(string(id), instancePrefix) }

// members are n members of a group, which are not connected yet.
func members(g group, prefix string, n int) (list []*member) {
	for i := range n {
		list = append(list, &member{name: fmt.Sprintf("%s%d", prefix, i+1), group: g})
	}
	return list
}

func (f *fleet) link(ctx context.Context, port int) (*link, error) {
	l, err := newLink(ctx, fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		f.links = append(f.links, l)
	}
	return l, err
}

// connect opens a client's links to the servers.
func (f *fleet) connect(ctx context.Context, m *member) error {
	var urls []string
	for _, s := range f.servers {
		l, err := f.link(ctx, s.spec.Port)
		if err != nil {
			return err
		}
		m.links, s.from = append(m.links, l), append(s.from, l)
		urls = append(urls, "nats://"+l.address())
	}
	m.url = strings.Join(urls, ",")
	return nil
}

// startMember starts a new process for a member.
func (f *fleet) startMember(ctx context.Context, m *member) error {
	m.runs++
	m.id = events.WorkerID(fmt.Sprintf("%s-%d", m.name, m.runs))
	cast := CastSpec{
		ID: m.id, URL: m.url, Replicas: len(f.servers), Chats: f.o.Chats, Think: f.o.Think,
		Ledger: filepath.Join(f.o.Store, "ledger-"+string(m.id)),
	}
	spec := Spec{Node: &NodeSpec{CastSpec: cast, Name: m.name, Plugin: len(f.plugins) > 0, Agents: f.o.Agents > 0}}
	if f.o.MCP > 0 {
		spec.Node.MCP = &MCPSpec{Ledger: filepath.Join(f.o.Store, "mcp-"+string(m.id)+".ledger"), Order: f.order(m)}
	}
	if m.group == groupPlugins {
		spec = Spec{Plugin: &PluginSpec{cast}}
	}
	var err error
	m.child, err = f.launch.start(ctx, spec)
	return err
}

// order is the file that orders the server of the Model Context Protocol of a node to die.
func (f *fleet) order(m *member) string { return filepath.Join(f.o.Store, "mcp-"+m.name+".order") }

// stopGrace bounds an orderly stop of a child.
const stopGrace = 3 * time.Second

// stop ends every child: nodes, then plugins, then servers.
func (f *fleet) stop() {
	var servers []*child
	for _, s := range f.servers {
		servers = append(servers, s.child)
	}
	stopAll(children(f.nodes))
	stopAll(children(f.plugins))
	stopAll(servers)
	for _, l := range f.links {
		l.close()
	}
	_ = f.launch.log.Close()
}

func children(list []*member) (all []*child) {
	for _, m := range list {
		all = append(all, m.child)
	}
	return all
}

// stopAll stops children at once. nil ones have not started.
func stopAll(list []*child) {
	var all sync.WaitGroup
	for _, c := range list {
		if c != nil {
			all.Go(func() { c.stop(stopGrace) })
		}
	}
	all.Wait()
}
