package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus/busembed"
)

// ServerSpec is the [Spec] of a server of the cluster.
type ServerSpec struct {
	Name        string   `json:"name"`
	Store       string   `json:"store"`
	Port        int      `json:"port"`
	ClusterPort int      `json:"cluster_port"`
	Routes      []string `json:"routes"` // links to the others
}

// readyEvery is the interval at which a server checks for a leader of its cluster.
const readyEvery = 50 * time.Millisecond

func (s *ServerSpec) run(ctx context.Context, working func()) error {
	profile := busembed.ProfileCluster
	if len(s.Routes) == 0 {
		profile = busembed.ProfileInterval
	}
	server, err := busembed.Start(busembed.Config{
		StoreDir: s.Store, Listen: true, Port: s.Port, Name: s.Name, Profile: profile,
		ClusterName: "lash-soak", ClusterPort: s.ClusterPort, Routes: s.Routes, FixedRoutes: true,
	})
	if err != nil {
		return fmt.Errorf("server %s: %w", s.Name, err)
	}
	defer server.Stop()
	poll := time.NewTicker(readyEvery)
	defer poll.Stop()
	for !server.Ready() {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
	working()
	<-ctx.Done()
	return nil
}
