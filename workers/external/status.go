package external

import (
	"maps"
	"slices"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Status is what this node knows of the plugins, in the order of the configuration.
func (p *Plugins) Status() []api.ExternalPlugin {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]api.ExternalPlugin, len(p.names))
	for i, name := range p.names {
		list[i] = p.statusLocked(name)
	}
	return list
}

func (p *Plugins) statusLocked(name string) api.ExternalPlugin {
	k := p.byName[name]
	out := api.ExternalPlugin{Name: name, Version: k.row.Manifest.Version, Hash: k.row.Hash, Tools: []string{}, Hooks: []string{}, Instances: []api.PluginInstance{}}
	for i := range k.current.manifest.Hooks {
		out.Hooks = append(out.Hooks, k.current.manifest.Hooks[i].Name)
	}
	slices.Sort(out.Hooks)
	for _, entry := range k.current.tools.Entries() {
		out.Tools = append(out.Tools, entry.Name)
	}
	for _, id := range slices.Sorted(maps.Keys(k.instances)) {
		s := k.instances[id]
		silent := k.clock() - s.heard
		if silent > wire.Lease {
			continue
		}
		out.Instances = append(out.Instances, api.PluginInstance{
			ID: id, Machine: s.Machine, Current: s.Hash == k.row.Hash, Draining: s.Draining,
			Running: s.Running, Calls: s.Calls, Failures: s.Failures, SilentMS: silent.Milliseconds(),
		})
	}
	return out
}

// Report implements [plugin.Reporting].
func (f factory) Report() api.ExternalPlugin {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.statusLocked(f.name)
}
