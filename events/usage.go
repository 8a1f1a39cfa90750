package events

import "fmt"

// ModelCompleted is a direct completion: a model call outside the conversation,
// asked for by a plugin or a protocol. It is charged once, however often the
// same key is asked for.
type ModelCompleted struct {
	Key      string     `msgpack:"k"` // names the call: asked again in the same turn, this reply is the answer
	Request  string     `msgpack:"q"` // hex sha256 of the request
	Source   string     `msgpack:"o"` // of usage, in the ledger
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

// UsageEntry sums what one model used.
type UsageEntry struct {
	Model string `msgpack:"m,omitempty"`
	Usage Usage  `msgpack:"u"`
}

// UsageCharged says what a child session has used in all so far. It replaces
// what an earlier one said of the same child, so that no retry charges twice.
type UsageCharged struct {
	Child   SessionID    `msgpack:"c"`
	Source  string       `msgpack:"o"` // in the ledger
	At      Seq          `msgpack:"q"` // of the child's history
	Entries []UsageEntry `msgpack:"e"` // sorted by model
}

// Validate implements [Payload].
func (p *UsageCharged) Validate() error {
	if err := CheckToken("child", p.Child); err != nil {
		return err
	}
	for i := 1; i < len(p.Entries); i++ {
		if p.Entries[i-1].Model >= p.Entries[i].Model {
			return invalid("entries", fmt.Sprintf("%q is out of order or stands twice", p.Entries[i].Model))
		}
	}
	return checkID("source", p.Source, true)
}
