package events

import "fmt"

// Artifact is a named body of a plugin's state.
type Artifact struct {
	Name string  `msgpack:"n"`
	Data []byte  `msgpack:"d,omitempty"`
	Blob BlobRef `msgpack:"b,omitempty"` // instead of Data when above the inline cap
}

// PluginStateSaved is a plugin's state from here on. It counts only where the
// revision that it was made from is still the session's: of two that changed
// the same state at once the first wins.
type PluginStateSaved struct {
	Plugin    string     `msgpack:"p"`
	Version   string     `msgpack:"v"`
	Base      uint64     `msgpack:"a,omitempty"` // revision that it was made from; 0 also where nothing was ever saved
	Revision  uint64     `msgpack:"r"`
	State     []byte     `msgpack:"s,omitempty"` // JSON, the plugin's own
	Blob      BlobRef    `msgpack:"b,omitempty"` // instead of State when above the inline cap
	Artifacts []Artifact `msgpack:"x,omitempty"`
}

// Validate implements [Payload].
func (p *PluginStateSaved) Validate() error {
	seen := make(map[string]bool, len(p.Artifacts))
	for i := range p.Artifacts {
		name := p.Artifacts[i].Name
		if name == "" || seen[name] {
			return invalid(fmt.Sprintf("artifacts[%d].name", i), fmt.Sprintf("%q is empty or stands twice", name))
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
	Options []byte `msgpack:"o"`           // JSON, the protocol's own
	All     bool   `msgpack:"a,omitempty"` // of every frame, not only of the current one
}

// Validate implements [Payload].
func (*FrameConfigured) Validate() error { return nil }

// FrameStateSaved is the execution state of the current frame from here on:
// the values that a protocol's code left behind.
type FrameStateSaved struct {
	State []byte  `msgpack:"s,omitempty"`
	Blob  BlobRef `msgpack:"b,omitempty"` // instead of State when above the inline cap
}

// Validate implements [Payload].
func (*FrameStateSaved) Validate() error { return nil }
