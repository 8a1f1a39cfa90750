package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	o        *Options
	launch   *launcher
	servers  []*server
	nodes    []*node
	links    []*link // all of them
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

// node is a node of the fleet. Its process changes with restarts.
type node struct {
	name  string
	url   string
	links []*link // to the servers
	runs  int
	child *child
	id    events.WorkerID // of the process
}

func startFleet(ctx context.Context, o *Options, servers int, incidents *journal) (*fleet, error) {
	files, err := os.OpenFile(filepath.Join(o.Store, "children.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f := &fleet{o: o, launch: &launcher{program: o.Program, args: o.Args, log: files}, incident: incidents}
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
	for _, n := range f.nodes {
		if err := f.startNode(ctx, n); err != nil {
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
	own := &node{}
	if err := f.connect(ctx, own); err != nil {
		return err
	}
	f.ownURL = own.url
	for i := range f.o.Nodes {
		n := &node{name: fmt.Sprintf("n%d", i+1)}
		if err := f.connect(ctx, n); err != nil {
			return err
		}
		f.nodes = append(f.nodes, n)
	}
	return nil
}

func (f *fleet) link(ctx context.Context, port int) (*link, error) {
	l, err := newLink(ctx, fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		f.links = append(f.links, l)
	}
	return l, err
}

// connect opens a client's links to the servers.
func (f *fleet) connect(ctx context.Context, n *node) error {
	var urls []string
	for _, s := range f.servers {
		l, err := f.link(ctx, s.spec.Port)
		if err != nil {
			return err
		}
		n.links, s.from = append(n.links, l), append(s.from, l)
		urls = append(urls, "nats://"+l.address())
	}
	n.url = strings.Join(urls, ",")
	return nil
}

// startNode starts a new process for a node.
func (f *fleet) startNode(ctx context.Context, n *node) error {
	n.runs++
	n.id = events.WorkerID(fmt.Sprintf("%s-%d", n.name, n.runs))
	var err error
	n.child, err = f.launch.start(ctx, Spec{Node: &NodeSpec{
		Name: n.name, Worker: n.id, URL: n.url, Replicas: len(f.servers), Chats: f.o.Chats, Think: f.o.Think,
		Ledger: filepath.Join(f.o.Store, "ledger-"+string(n.id)),
	}})
	return err
}

// stopGrace bounds an orderly stop of a child.
const stopGrace = 3 * time.Second

// stop ends every child, nodes first.
func (f *fleet) stop() {
	var nodes, others sync.WaitGroup
	for _, n := range f.nodes {
		if n.child != nil {
			nodes.Go(func() { n.child.stop(stopGrace) })
		}
	}
	nodes.Wait()
	for _, s := range f.servers {
		if s.child != nil {
			others.Go(func() { s.child.stop(stopGrace) })
		}
	}
	others.Wait()
	for _, l := range f.links {
		l.close()
	}
	_ = f.launch.log.Close()
}
