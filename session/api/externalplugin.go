package api

import "slices"

// ExternalPlugin is a plugin of the fleet that runs as programs of its own.
type ExternalPlugin struct {
	Name      string           `msgpack:"n" json:"name"`
	Version   string           `msgpack:"v,omitempty" json:"version,omitempty" jsonschema:"of the registered manifest; absent: no instance has registered yet"`
	Hash      string           `msgpack:"h,omitempty" json:"hash,omitempty" jsonschema:"of the manifest"`
	Tools     []string         `msgpack:"t" json:"tools" jsonschema:"by name"`
	Hooks     []string         `msgpack:"k" json:"hooks" jsonschema:"by name"`
	Instances []PluginInstance `msgpack:"i" json:"instances" jsonschema:"that live, by id"`
}

// PluginInstance is a running program of a plugin, as its last sign of life describes it.
type PluginInstance struct {
	ID       string `msgpack:"i" json:"id"`
	Machine  string `msgpack:"m,omitempty" json:"machine,omitempty" jsonschema:"where it runs, as it says itself"`
	Current  bool   `msgpack:"c,omitempty" json:"current" jsonschema:"it has the registered manifest, and gets new calls"`
	Draining bool   `msgpack:"d,omitempty" json:"draining" jsonschema:"it takes no new calls"`
	Running  int64  `msgpack:"r,omitempty" json:"running" jsonschema:"calls that run"`
	Calls    int64  `msgpack:"n,omitempty" json:"calls" jsonschema:"that ended since it started"`
	Failures int64  `msgpack:"f,omitempty" json:"failures" jsonschema:"of these, calls that failed"`
	SilentMS int64  `msgpack:"s,omitempty" json:"silent_ms" jsonschema:"milliseconds since its last sign of life"`
}

// States of instances.
const (
	InstanceReady    = "ready"         // gets new calls
	InstanceDraining = "draining"      // finishes its calls
	InstanceOther    = "other_version" // finishes its calls: another manifest is registered
)

// State is one of the states above.
func (i *PluginInstance) State() string {
	switch {
	case !i.Current:
		return InstanceOther
	case i.Draining:
		return InstanceDraining
	}
	return InstanceReady
}

// Ready reports whether an instance takes the plugin's calls.
func (p *ExternalPlugin) Ready() bool {
	return slices.ContainsFunc(p.Instances, func(i PluginInstance) bool { return i.State() == InstanceReady })
}
