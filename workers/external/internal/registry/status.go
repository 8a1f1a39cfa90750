package registry

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/session/api"
)

// Status is what this node knows of the plugins, in the order of the configuration.
func (r *Registry) Status() []api.ExternalPlugin {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.ExternalPlugin, len(r.names))
	for i, name := range r.names {
		list[i] = r.statusLocked(name)
	}
	return list
}

// StatusOf is what this node knows of one plugin.
func (r *Registry) StatusOf(name string) api.ExternalPlugin {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.statusLocked(name)
}

func (r *Registry) statusLocked(name string) api.ExternalPlugin {
	k := r.byName[name]
	out := api.ExternalPlugin{Name: name, Version: k.row.Manifest.Version, Hash: k.row.Hash, Tools: []string{}, Hooks: []string{}, Instances: []api.PluginInstance{}}
	for i := range k.current.Manifest.Hooks {
		out.Hooks = append(out.Hooks, k.current.Manifest.Hooks[i].Name)
	}
	slices.Sort(out.Hooks)
	for _, entry := range k.current.Tools.Entries() {
		out.Tools = append(out.Tools, entry.Name)
	}
	for _, id := range slices.Sorted(maps.Keys(k.instances)) {
		s := k.instances[id]
		if !k.livesLocked(id) {
			continue
		}
		out.Instances = append(out.Instances, api.PluginInstance{
			ID: id, Machine: s.Machine, Current: s.Hash == k.row.Hash, Draining: s.Draining,
			Running: s.Running, Calls: s.Calls, Failures: s.Failures, SilentMS: (k.clock() - s.at).Milliseconds(),
		})
	}
	return out
}

// Lacks says what the plugins cannot do yet, a line for each plugin without a manifest or without an instance that
// lives, and for each tool of the settings that no manifest has. It is empty if there is nothing.
func (r *Registry) Lacks() (lines []string) {
	for _, s := range r.Status() {
		switch alive := slices.ContainsFunc(s.Instances, func(i api.PluginInstance) bool { return i.Current }); {
		case s.Version == "":
			lines = append(lines, fmt.Sprintf("plugin %s: no manifest is registered: sessions do not have its tools", s.Name))
			continue
		case !alive:
			lines = append(lines, fmt.Sprintf("plugin %s: no instance lives: its calls fail as unavailable", s.Name))
		}
		for _, tool := range r.byName[s.Name].settings.Unknown(s.Tools) {
			lines = append(lines, fmt.Sprintf("plugin %s: the settings name its tool %s, which it does not have", s.Name, tool))
		}
	}
	return lines
}
