package events

// SessionOverlaid sets the overlay of a session: tools and contributions over its own. It replaces an earlier
// overlay; the zero value removes it. Handlers of the tools are not recorded: each node finds its own.
type SessionOverlaid struct {
	Tools         []ToolEntry    `msgpack:"t,omitempty"` // sorted by name; they replace the session's own tools of the same names
	Contributions []Contribution `msgpack:"c,omitempty"` // to the prompt of every turn
	WithoutBase   bool           `msgpack:"w,omitempty"` // the session's own tools are not offered
}

// IsZero reports whether the overlay is empty.
func (p SessionOverlaid) IsZero() bool {
	return len(p.Tools) == 0 && len(p.Contributions) == 0 && !p.WithoutBase
}

// Validate implements [Payload].
func (p *SessionOverlaid) Validate() error {
	if err := (&ToolStateApplied{Tools: p.Tools}).Validate(); err != nil {
		return err
	}
	return validateContributions("contributions", p.Contributions)
}

// SessionExtended is an object that a host sent to the session's protocol and that the protocol accepted.
type SessionExtended struct {
	Extension Extension `msgpack:"e"`
	// Saved means that the protocol's plugin keeps the object in its state, which the same commit records.
	// Otherwise the protocol gets the object again wherever the session is opened.
	Saved bool `msgpack:"s,omitempty"`
}

// Validate implements [Payload].
func (p *SessionExtended) Validate() error { return checkID("extension.type", p.Extension.Type, true) }

// SessionExtensionsSet replaces all extensions that the session keeps.
type SessionExtensionsSet struct {
	Extensions []Extension `msgpack:"e,omitempty"` // the protocol gets them, in order, wherever the session is opened
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
