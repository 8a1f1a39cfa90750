package events

import "fmt"

// Artifact is a named body of a plugin's state.
type Artifact struct {
	Name string  `msgpack:"n"`
	Data []byte  `msgpack:"d,omitempty"`
	Blob BlobRef `msgpack:"b,omitempty"` // replaces Data above the inline limit
}

// PluginStateSaved sets a plugin's state. The fold ignores it unless Base is the current revision.
// So of two concurrent changes the first one wins.
type PluginStateSaved struct {
	Plugin    string     `msgpack:"p"`
	Version   string     `msgpack:"v"`
	Base      uint64     `msgpack:"a,omitempty"` // revision that the change started from; 0 also without an earlier save
	Revision  uint64     `msgpack:"r"`
	State     []byte     `msgpack:"s,omitempty"` // JSON in the plugin's own format
	Blob      BlobRef    `msgpack:"b,omitempty"` // replaces State above the inline limit
	Artifacts []Artifact `msgpack:"x,omitempty"`
}

// Validate implements [Payload].
func (p *PluginStateSaved) Validate() error {
	seen := make(map[string]bool, len(p.Artifacts))
	for i := range p.Artifacts {
		name := p.Artifacts[i].Name
		if name == "" || seen[name] {
			return invalid(fmt.Sprintf("artifacts[%d].name", i), fmt.Sprintf("%q is empty or occurs twice", name))
		}
		seen[name] = true
	}
	if p.Revision <= p.Base {
		return invalid("revision", fmt.Sprintf("is %d, want more than its base %d", p.Revision, p.Base))
	}
	return checkID("plugin", p.Plugin, true)
}

// FrameConfigured sets a protocol's durable turn options.
type FrameConfigured struct {
	Options []byte `msgpack:"o"`           // JSON in the protocol's own format
	All     bool   `msgpack:"a,omitempty"` // for every frame, not only the current one
}

// Validate implements [Payload].
func (*FrameConfigured) Validate() error { return nil }

// FrameStateSaved sets the execution state of the current frame: the values that a protocol's code left.
type FrameStateSaved struct {
	State []byte  `msgpack:"s,omitempty"`
	Blob  BlobRef `msgpack:"b,omitempty"` // replaces State above the inline limit
}

// Validate implements [Payload].
func (*FrameStateSaved) Validate() error { return nil }
