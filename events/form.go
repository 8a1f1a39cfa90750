package events

// MaxFormBytes limits the JSON schema of a turn's answer.
const MaxFormBytes = 32 << 10

// OutputForm is the form of a turn's answer. The zero value is text.
type OutputForm struct {
	Name   string `msgpack:"n,omitempty"` // of the schema: 1 to 64 letters, digits, "_" and "-"
	Schema []byte `msgpack:"s,omitempty"` // JSON schema, an object, that the answer matches
	Strict bool   `msgpack:"b,omitempty"` // makes the provider enforce the schema, where enforcement is optional
}

// IsZero reports whether the answer is text.
func (f OutputForm) IsZero() bool { return f.Name == "" && len(f.Schema) == 0 && !f.Strict }

func (f OutputForm) validate(field string) error {
	switch {
	case f.IsZero():
		return nil
	case len(f.Schema) == 0:
		return invalid(field+".schema", "is empty")
	case len(f.Schema) > MaxFormBytes:
		return tooLarge(field+".schema", len(f.Schema), MaxFormBytes)
	}
	return CheckToken(field+".name", f.Name)
}
