package events

import "fmt"

// ModelCompleted is a direct completion: a model call outside the conversation, from a plugin or a protocol. Its
// usage counts once, however often a caller repeats the key.
type ModelCompleted struct {
	Key      string     `msgpack:"k"` // identifies the call: the same key in the same turn returns this reply
	Request  string     `msgpack:"q"` // hex sha256 of the request
	Source   string     `msgpack:"o"` // source of the usage in the ledger
	Parts    []Part     `msgpack:"x,omitempty"`
	Stop     StopReason `msgpack:"s"`
	Usage    Usage      `msgpack:"u,omitempty"`
	Provider string     `msgpack:"v,omitempty"`
	Model    string     `msgpack:"m,omitempty"`
	Millis   int64      `msgpack:"t,omitempty"` // duration
}

// Validate implements [Payload].
func (p *ModelCompleted) Validate() error {
	if err := checkID("key", p.Key, true); err != nil {
		return err
	}
	if err := checkID("source", p.Source, true); err != nil {
		return err
	}
	if err := p.Stop.validate("stop"); err != nil {
		return err
	}
	return validateParts(p.Parts)
}

// UsageEntry is the total usage of one model.
type UsageEntry struct {
	Model string `msgpack:"m,omitempty"`
	Usage Usage  `msgpack:"u"`
}

// UsageCharged is the total usage of a child session so far. It replaces earlier totals of the same child, so retries
// do not count twice.
type UsageCharged struct {
	Child   SessionID    `msgpack:"c"`
	Source  string       `msgpack:"o"` // source name in the ledger
	At      Seq          `msgpack:"q"` // sequence in the child's history
	Entries []UsageEntry `msgpack:"e"` // sorted by model
}

// Validate implements [Payload].
func (p *UsageCharged) Validate() error {
	if err := CheckToken("child", p.Child); err != nil {
		return err
	}
	for i := 1; i < len(p.Entries); i++ {
		if p.Entries[i-1].Model >= p.Entries[i].Model {
			return invalid("entries", fmt.Sprintf("%q is out of order or occurs twice", p.Entries[i].Model))
		}
	}
	return checkID("source", p.Source, true)
}
