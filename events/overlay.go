package events

// SessionOverlaid lays tools and contributions over a session's own, in place of
// what lay over them before. The zero value lifts that. What runs a tool is no
// part of it: each node finds that for itself.
type SessionOverlaid struct {
	Tools         []ToolEntry    `msgpack:"t,omitempty"` // sorted by name; they take the place of the session's own of that name
	Contributions []Contribution `msgpack:"c,omitempty"` // to the prompt of every turn
	WithoutBase   bool           `msgpack:"w,omitempty"` // the session's own tools are not offered
}

// IsZero reports whether nothing lies over the session's own tools.
func (p SessionOverlaid) IsZero() bool {
	return len(p.Tools) == 0 && len(p.Contributions) == 0 && !p.WithoutBase
}

// Validate implements [Payload].
func (p *SessionOverlaid) Validate() error {
	if err := (&ToolStateApplied{Tools: p.Tools}).Validate(); err != nil {
		return err
	}
	return validateContributions(p.Contributions)
}

// SessionExtended is an object that a host handed to the session's protocol, and that the protocol accepted.
type SessionExtended struct {
	Extension Extension `msgpack:"e"`
	// Saved says that the plugin of the protocol keeps what it made of the object in its state, which is
	// recorded beside. Others are handed the object again wherever the session is opened.
	Saved bool `msgpack:"s,omitempty"`
}

// Validate implements [Payload].
func (p *SessionExtended) Validate() error { return checkID("extension.type", p.Extension.Type, true) }

// SessionExtensionsSet puts others in place of all extensions that the session keeps, or none.
type SessionExtensionsSet struct {
	Extensions []Extension `msgpack:"e,omitempty"` // that the protocol is handed wherever the session is opened, in order
}

// Validate implements [Payload].
func (p *SessionExtensionsSet) Validate() error {
	for i := range p.Extensions {
		if err := checkID("extensions.type", p.Extensions[i].Type, true); err != nil {
			return err
		}
	}
	return nil
}
