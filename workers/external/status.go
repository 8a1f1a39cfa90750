package external

import (
	"maps"
	"slices"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
)

// Status is what a node knows of one plugin.
type Status struct {
	Plugin    string
	Version   string // of the registered manifest; empty: none is registered
	Tools     []string
	Instances []InstanceStatus // that live, by id
}

// InstanceStatus is one instance that lives.
type InstanceStatus struct {
	ID       string
	Current  bool // has the registered manifest
	Draining bool
	Running  int // calls, at its last sign of life
}

// Status lists the plugins, in the order of their names in the configuration.
func (p *Plugins) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Status, len(p.names))
	for i, name := range p.names {
		k := p.byName[name]
		list[i] = Status{Plugin: name, Version: k.version}
		for _, entry := range k.tools.Entries() {
			list[i].Tools = append(list[i].Tools, entry.Name)
		}
		for _, id := range slices.Sorted(maps.Keys(k.instances)) {
			if s := k.instances[id]; time.Since(s.heard) <= wire.Lease {
				list[i].Instances = append(list[i].Instances, InstanceStatus{id, s.hash == k.hash, s.draining, s.running})
			}
		}
	}
	return list
}
