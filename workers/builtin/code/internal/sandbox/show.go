package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// show adds attachments to the response.
func (r *run) show(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	const usage = "show takes attachments, as attachments() and with_attachments(..) give them"
	if len(args) == 0 || len(kwargs) > 0 {
		return nil, errors.New(usage)
	}
	for _, arg := range args {
		data, err := toJSON(arg)
		if err != nil {
			return nil, fmt.Errorf("show: %w", err)
		}
		var a Attachment
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&a); err != nil || (a.Digest == "") == (a.URL == "") {
			return nil, fmt.Errorf("%s, not %s", usage, describe(arg))
		}
		if r.shown++; r.shown > maxShown {
			return nil, fmt.Errorf("the program showed too many attachments (limit %d); show those that you need to see", maxShown)
		}
		r.send(message{Kind: "show", Shown: a})
	}
	return starlark.None, nil
}
